import { setTimeout as delay } from 'node:timers/promises';
import { OutboxService } from 'nestjs-inbox-outbox';
import { DataSource } from 'typeorm';
import { openApplication, optionsGiven } from '../harness/application';
import { body } from '../harness/body';
import { serve } from '../harness/serve';

/** One message now and then, with the time at which its commit was known. OPTIONS: the outbox options as JSON. */
const opened = openApplication({ outbox: optionsGiven() });

interface Publish {
  readonly queue: string;
  readonly count: number;
  /** Milliseconds from one to the next, on average. */
  readonly pause: number;
}

serve({
  async ready(): Promise<void> {
    await opened;
  },

  /** @returns when each message's commit was known, in ms of `process.hrtime` */
  async publish({ queue, count, pause }: Publish): Promise<Record<string, number>> {
    const app = await opened;
    const committed: Record<string, number> = {};
    for (let n = 0; n < count; n++) {
      const id = await app
        .get(DataSource)
        .transaction(() => app.get(OutboxService).publish('', queue, body(n)));
      committed[id] = Number(process.hrtime.bigint()) / 1e6;
      // Not in step with anything that polls.
      await delay(pause * (0.5 + Math.random()));
    }
    return committed;
  },
});
