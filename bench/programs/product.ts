import { OutboxDispatcher, OutboxService } from 'nestjs-inbox-outbox';
import { DataSource } from 'typeorm';
import { openApplication, optionsGiven } from '../harness/application';
import { body } from '../harness/body';
import { serve } from '../harness/serve';

/** The product, as an application has it. OPTIONS: the outbox options as JSON. */
const opened = openApplication({ outbox: optionsGiven() });

interface Fill {
  readonly queue: string;
  readonly count: number;
  /** Ordering keys; none by default. */
  readonly keys?: number;
}

serve({
  async ready(): Promise<void> {
    await opened;
  },

  async fill({ queue, count, keys = 0 }: Fill): Promise<void> {
    const app = await opened;
    const service = app.get(OutboxService);
    for (let first = 0; first < count; first += 1_000) {
      const numbers = Array.from({ length: Math.min(1_000, count - first) }, (_, i) => first + i);
      await app.get(DataSource).transaction(() =>
        service.publishMany(
          numbers.map((n) => ({
            exchange: '',
            routingKey: queue,
            payload: body(n),
            options: keys > 0 ? { orderingKey: `key-${n % keys}` } : {},
          })),
        ),
      );
    }
  },

  /** One pass: until nothing is due. @returns milliseconds */
  async drain(): Promise<{ milliseconds: number; sent: number }> {
    const dispatcher = (await opened).get(OutboxDispatcher);
    const started = performance.now();
    const { sent } = await dispatcher.runOnce();
    return { milliseconds: performance.now() - started, sent };
  },

  /** As `drain`, with the memory before and over time, in bytes: resident (each 100 ms), and in use after a collection (each 3 s). */
  async drainWatched(): Promise<Record<'resident' | 'inUse', { idle: number; seen: number[] }>> {
    const dispatcher = (await opened).get(OutboxDispatcher);
    const inUse = () => {
      (globalThis as { gc?: () => void }).gc?.();
      const { heapUsed, external } = process.memoryUsage();
      return heapUsed + external;
    };
    const watched = {
      inUse: { idle: inUse(), seen: [] as number[] },
      resident: { idle: process.memoryUsage.rss(), seen: [] as number[] },
    };
    const timers = [
      setInterval(() => watched.resident.seen.push(process.memoryUsage.rss()), 100),
      setInterval(() => watched.inUse.seen.push(inUse()), 3_000),
    ];
    await dispatcher.runOnce();
    timers.forEach(clearInterval);
    return watched;
  },
});
