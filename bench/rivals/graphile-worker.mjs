import { randomUUID } from 'node:crypto';
import { Logger, makeWorkerUtils, run } from 'graphile-worker';
import serving from '../harness/serve.js';
import { body, openPublisher, until } from './publisher.mjs';

const connectionString = process.env.DATABASE;
const logger = new Logger(() => () => undefined);
let utils;
let publish;
let handled = 0;

serving.serve({
  async ready({ queue }) {
    publish = await openPublisher(queue);
    utils = await makeWorkerUtils({ connectionString, logger });
    await utils.migrate();
  },

  async fill({ count }) {
    for (let first = 0; first < count; first += 1_000) {
      const jobs = Array.from({ length: Math.min(1_000, count - first) }, (_, i) => ({
        identifier: 'message',
        payload: { messageId: randomUUID(), body: body(first + i) },
      }));
      await utils.addJobs(jobs);
    }
  },

  async drain({ count }) {
    handled = 0;
    const started = performance.now();
    const runner = await run({
      connectionString,
      logger,
      noHandleSignals: true,
      preset: {
        worker: { concurrentJobs: 24, localQueue: { size: 500 }, completeJobBatchDelay: 0 },
      },
      taskList: {
        async message({ messageId, body: payload }) {
          await publish(messageId, payload);
          handled++;
        },
      },
    });
    await until(() => handled >= count);
    const milliseconds = performance.now() - started;
    await runner.stop();
    return milliseconds;
  },
});
