import { setTimeout as delay } from 'node:timers/promises';
import type { Dialect } from '../../../lib/persistence/dialect';
import type { Transport } from '../../../lib/transport/transport';
import { DispatchSetup } from './dispatch-setup';

const ROWS = 200;
const WATCHED = 5_000;

describe('C25: while nothing can be sent', () => {
  let setup: DispatchSetup;
  let exchange: string;
  beforeAll(async () => {
    setup = await DispatchSetup.open();
    exchange = await setup.broker.assertExchange('nobody-listens');
  });
  afterEach(() => setup.reset());
  afterAll(() => setup?.close());

  it.each(['every message is refused', 'every answer is lost', 'the broker is away'])(
    'C25: %s: neither the database nor the broker is hammered',
    async (how) => {
      const tries = new Map<string, number>();
      let looks = 0;
      let claims = 0;
      const real = setup.transport();
      const transport: Transport = {
        availability: () =>
          how === 'the broker is away' ? { available: false, reason: 'disconnected' } : real.availability(),
        onAvailable: (listener) => real.onAvailable(listener),
        close: () => real.close(),
        send(message, limits) {
          tries.set(message.messageId, (tries.get(message.messageId) ?? 0) + 1);
          if (how === 'every answer is lost') return Promise.resolve({ kind: 'unknown', error: how });
          return real.send(message, limits);
        },
      };
      const { outbox } = setup.table.dialect;
      const dialect: Dialect = {
        ...setup.table.dialect,
        outbox: {
          ...outbox,
          anythingDue: (runner, ...rest) => {
            looks++;
            return outbox.anythingDue(runner, ...rest);
          },
          claim: (runner, request) => {
            claims++;
            return outbox.claim(runner, request);
          },
        },
      };
      await setup.table.publish(...Array.from({ length: ROWS }, () => ({ exchange, routingKey: 'x' })));
      const dispatcher = setup.dispatcher(
        { pollInterval: 100, maxAttempts: 5, backoff: { initialDelay: '1s' } },
        { transport, dialect },
      );
      const cpu = process.cpuUsage();
      const started = performance.now();
      dispatcher.start();
      await delay(WATCHED);
      const { user, system } = process.cpuUsage(cpu);
      const polls = (performance.now() - started) / 100;
      const most = Math.max(0, ...tries.values());
      // Refused: at once, after a second and after three. Unknown: the pauses of the dispatcher are shorter, and grow to 5 s.
      expect(most).toBeLessThanOrEqual(how === 'every answer is lost' ? 7 : 4);
      expect(most).toBeGreaterThanOrEqual(how === 'the broker is away' ? 0 : 2);
      // A poll looks once, or again from the start of the table; and each batch that was claimed is followed by a look.
      expect(looks).toBeLessThanOrEqual(1.2 * polls + 2 * claims);
      // With jitter the retries come due one by one, and a quick machine claims nearly as many batches.
      const retries = [...tries.values()].reduce((sum, count) => sum + count - 1, 0);
      expect(claims).toBeLessThanOrEqual(1.2 * polls + retries / 2);
      expect((user + system) / 1_000 / WATCHED).toBeLessThan(0.5);
      expect((await setup.rows()).filter(({ status }) => status === 'dead')).toEqual([]);
    },
  );
});
