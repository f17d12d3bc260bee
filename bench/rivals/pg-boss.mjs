import { randomUUID } from 'node:crypto';
import { PgBoss } from 'pg-boss';
import serving from '../harness/serve.js';
import { body, openPublisher, until } from './publisher.mjs';

let boss;
let publish;
let handled = 0;

serving.serve({
  async ready({ queue }) {
    publish = await openPublisher(queue);
    boss = new PgBoss(process.env.DATABASE);
    boss.on('error', (error) => console.error(error));
    await boss.start();
    await boss.createQueue('messages');
  },

  async fill({ count }) {
    for (let first = 0; first < count; first += 1_000) {
      const jobs = Array.from({ length: Math.min(1_000, count - first) }, (_, i) => ({
        id: randomUUID(),
        data: body(first + i),
      }));
      await boss.insert('messages', jobs);
    }
  },

  async drain({ count }) {
    handled = 0;
    const started = performance.now();
    const options = {
      batchSize: 500,
      pollingIntervalSeconds: 0.5,
      burstWhenBatchFull: true,
      localConcurrency: 2,
    };
    await boss.work('messages', options, async (jobs) => {
      await Promise.all(jobs.map(({ id, data }) => publish(id, data)));
      handled += jobs.length;
    });
    await until(() => handled >= count);
    const milliseconds = performance.now() - started;
    await boss.offWork('messages', { wait: true });
    return milliseconds;
  },
});
