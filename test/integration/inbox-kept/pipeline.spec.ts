import { waitFor } from '../../support/wait-for';
import { InboxSetup } from '../inbox/inbox-setup';

interface Seen {
  readonly steps: string[];
  readonly payload: unknown;
  readonly headers: Record<string, unknown>;
  readonly redelivered: boolean;
  readonly attempt: number;
}

describe('the same pipeline for a message of the inbox table', () => {
  let setup: InboxSetup;
  beforeAll(async () => (setup = await InboxSetup.open()));
  afterEach(() => setup.stopApps());
  afterAll(() => setup.close());

  /** One of each type that AMQP has. */
  const headers = {
    text: 'text',
    whole: 7,
    big: { '!': 'int64', value: 5_000_000_000 },
    float: 1.5,
    yes: true,
    nothing: null,
    bytes: Buffer.from([0, 255]),
    time: { '!': 'timestamp', value: 1_700_000_000 },
    price: { '!': 'decimal', value: { places: 2, digits: 1999 } },
    list: [1, 'a', { deep: Buffer.from('b') }],
    table: { a: { b: 1 } },
  };
  const properties = {
    messageId: 'm',
    correlationId: 'c',
    replyTo: 'r',
    priority: 3,
    timestamp: 1_700_000_001,
    type: 't',
    appId: 'app',
    contentEncoding: 'utf-8',
    headers,
  };

  it.each(['retry', 'deferred'] as const)(
    'guards, interceptors, pipes, filters and parameters as for a delivery (%s)',
    async (mode) => {
      const queue = setup.broker.queue(mode);
      const idempotent = mode === 'retry' ? { onFailure: mode } : { processing: mode };
      const app = await setup.started('pipeline-app', {
        queue,
        inbox: { backoff: { initialDelay: 50 }, pollInterval: 50 },
        idempotent: { ...idempotent, consumer: mode },
      });
      await setup.broker.sendToQueue(queue, { name: 'ä' }, properties);
      await waitFor('both runs', () => app.events('seen').length === 2);
      const [first, second] = app.events<Seen>('seen') as [Seen, Seen];

      expect(first.payload).toEqual({ own: { name: 'ä' }, n: 21 });
      expect(first.headers).toMatchObject({ text: 'text', bytes: Buffer.from([0, 255]) });
      expect(first).toMatchObject({ doubled: 42, header: 'text', redelivered: false, attempt: 1 });
      expect(second).toMatchObject({ redelivered: true, attempt: 2 });

      const around = [
        'guard global rmq 3',
        'guard of the method rmq 3',
        'interceptor global outside Consumer bound handle',
      ];
      const inside = [
        'interceptor of the class inside Consumer bound handle',
        'interceptor of the method inside Consumer bound handle',
        'pipe body',
      ];
      // A delivery that is only stored passes what is around, too.
      const delivered = mode === 'deferred' ? around : [];
      expect(first.steps).toEqual([...delivered, ...around, ...inside]);
      expect(second.steps).toEqual([...around, ...inside]);
      const common = (seen: Seen) => ({ ...seen, steps: [], redelivered: undefined, attempt: undefined });
      expect(common(second)).toEqual(common(first));
    },
  );

  it.each(['retry', 'deferred'] as const)(
    'headers that are not strings come to each run as the broker client read them (%s)',
    async (mode) => {
      const queue = setup.broker.queue(`headers-${mode}`);
      const control = await setup.broker.assertQueue(`headers-${mode}-control`);
      const idempotent = mode === 'retry' ? { onFailure: mode } : { processing: mode };
      const app = await setup.started('pipeline-app', {
        queue,
        inbox: { backoff: { initialDelay: 50 }, pollInterval: 50 },
        idempotent: { ...idempotent, consumer: `headers-${mode}` },
      });
      await setup.broker.sendToQueue(control, {}, properties);
      await setup.broker.sendToQueue(queue, {}, properties);
      await waitFor('both runs', () => app.events('seen').length === 2);
      const read = (await setup.broker.get(control))?.properties;
      // Numbers, booleans, null, bytes, dates, decimals, lists and tables, at any depth: nothing has become a string.
      expect(read?.headers).toEqual({ ...headers, big: 5_000_000_000 });
      for (const seen of app.events<Seen & { properties: unknown }>('seen')) {
        expect(seen.headers).toEqual(read?.headers);
        expect(seen.properties).toEqual(read);
      }
    },
  );
});
