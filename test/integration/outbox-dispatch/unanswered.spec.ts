import type { ClaimedMessage } from '../../../lib/persistence/outbox-statements';
import type { SendLimits, SendOutcome, Transport } from '../../../lib/transport/transport';
import { waitFor } from '../../support/wait-for';
import { DispatchSetup } from './dispatch-setup';

/** Answers as told; what it does not answer has arrived or not, as with a queue that confirms nothing. */
class Broker implements Transport {
  readonly arrived: string[] = [];
  readonly tries = new Map<string, number>();

  constructor(private readonly answers: (message: ClaimedMessage, tries: number) => boolean) {}

  availability = () => ({ available: true }) as const;
  onAvailable = () => () => undefined;
  close = () => Promise.resolve();

  send(message: ClaimedMessage, limits: SendLimits): Promise<SendOutcome> {
    if (!limits.mayStart()) return Promise.resolve({ kind: 'unsent', error: 'may not start' });
    const tries = (this.tries.get(message.body) ?? 0) + 1;
    this.tries.set(message.body, tries);
    if (!this.answers(message, tries)) {
      return Promise.resolve({ kind: 'unknown', error: 'No confirm', unanswered: true });
    }
    this.arrived.push(message.body);
    return Promise.resolve({ kind: 'sent' });
  }
}

describe('A broker that is there but leaves some messages unanswered', () => {
  let setup: DispatchSetup;
  beforeAll(async () => {
    setup = await DispatchSetup.open();
  });
  afterEach(() => setup.reset());
  afterAll(() => setup?.close());

  const message = (body: string, orderingKey: string | null = null) => ({
    ...{ exchange: 'e', routingKey: 'r', body, orderingKey },
  });

  it('G4: a whole batch that is not answered at the front does not keep the others from being sent, and uses no attempt', async () => {
    const mute = Array.from({ length: 20 }, (_, n) => message(`mute ${n}`));
    await setup.table.publish(...mute, message('good 1'), message('good 2'));
    const broker = new Broker(({ body }) => body.startsWith('good'));
    setup.dispatcher({ batchSize: 10 }, { transport: broker }).start();
    await waitFor('the good ones', () => broker.arrived.length === 2);
    await waitFor('the others to be tried again', () =>
      [...broker.tries.values()].some((tries) => tries >= 3),
    );
    const rows = await setup.rows();
    expect(rows.map(({ status, attempts }) => ({ status, attempts }))).toEqual(
      mute.map(() => ({ status: 'ready', attempts: 0 })),
    );
    // Not hot: 1 s, then 2 s, then 4 s between two tries.
    expect(Math.max(...broker.tries.values())).toBeLessThanOrEqual(4);
  });

  it('G8: the order of each key stays, whichever message is not answered, and however often', async () => {
    const KEYS = 5;
    const published = Array.from({ length: 100 }, (_, n) => message(String(n), `k${n % KEYS}`));
    await setup.table.publish(...published);
    // Every seventh message is answered at the second try only; it may have arrived at the first.
    const broker = new Broker(({ body }, tries) => Number(body) % 7 !== 3 || tries > 1);
    for (let n = 0; n < 2; n++) {
      setup.dispatcher({ dispatch: 'competing', batchSize: 8 }, { transport: broker, name: `d${n}` }).start();
    }
    await waitFor('all to arrive', () => broker.arrived.length >= 100, { timeout: 25_000 });
    for (let key = 0; key < KEYS; key++) {
      const arrived = broker.arrived.map(Number).filter((n) => n % KEYS === key);
      expect(arrived).toEqual(arrived.slice().sort((a, b) => a - b));
      expect(arrived).toHaveLength(20);
    }
    await waitFor('all to be settled', async () => (await setup.rows()).length === 0);
  });
});
