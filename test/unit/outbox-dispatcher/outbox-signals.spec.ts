import { OutboxSignals } from '../../../lib/outbox/outbox-signals';
import type { SignalConnection, SignalEvents } from '../../../lib/persistence/signals';

class FakeConnection implements SignalConnection {
  sent = 0;
  listens = 0;
  /** Takes the place of the answer to `listen()`. */
  static answer: Promise<boolean> | undefined;
  closed = false;
  constructor(
    private readonly server: FakeServer,
    readonly events: SignalEvents,
  ) {}
  send = () => {
    if (this.server.down) return Promise.reject(new Error('send failed'));
    this.sent++;
    return Promise.resolve();
  };
  listen = () => {
    this.listens++;
    return FakeConnection.answer ?? Promise.resolve(this.server.returns);
  };
  close = () => {
    this.closed = true;
    return Promise.resolve();
  };
}

class FakeServer {
  down = false;
  /** Whether signals come back to whoever listens. */
  returns = true;
  attempts = 0;
  readonly connections: FakeConnection[] = [];
  open = (events: SignalEvents): Promise<SignalConnection> => {
    this.attempts++;
    if (this.down) return Promise.reject(new Error('the server is away'));
    const connection = new FakeConnection(this, events);
    this.connections.push(connection);
    return Promise.resolve(connection);
  };
}

describe('OutboxSignals', () => {
  let server: FakeServer;
  let lines: string[];
  let woken: number;
  const all: OutboxSignals[] = [];
  beforeEach(() => {
    jest.useFakeTimers();
    server = new FakeServer();
    lines = [];
    woken = 0;
  });
  afterEach(async () => {
    await Promise.all(all.splice(0).map((each) => each.close()));
    jest.useRealTimers();
  });

  function create({ listening = true } = {}): OutboxSignals {
    const note = (line: unknown) => void lines.push(String(line));
    const signals = new OutboxSignals({
      open: server.open,
      onSignal: listening ? () => void woken++ : undefined,
      logger: { log: note, warn: note, error: note },
    });
    all.push(signals);
    signals.start();
    return signals;
  }
  const pass = (milliseconds: number) => jest.advanceTimersByTimeAsync(milliseconds);

  it('one that is lost while its first signal is under way is opened again, when nobody publishes here too', async () => {
    FakeConnection.answer = new Promise((resolve) => setTimeout(() => resolve(false), 10_000));
    const signals = create();
    await pass(0);
    server.connections[0]?.events.onLost(new Error('cut'));
    FakeConnection.answer = undefined;
    await pass(11_000);
    expect(server.connections).toHaveLength(2);
    expect(signals.arrive).toBe(true);
  });

  it('sends the first signal at once and then one in 20 ms, the last included', async () => {
    const signals = create({ listening: false });
    signals.send();
    await pass(1);
    expect(server.connections[0]?.sent).toBe(1);
    for (let n = 0; n < 100; n++) {
      signals.send();
      await pass(1);
    }
    await pass(30);
    expect(server.connections[0]!.sent).toBeGreaterThanOrEqual(5);
    expect(server.connections[0]!.sent).toBeLessThanOrEqual(7);
    const before = server.connections[0]!.sent;
    await pass(1_000);
    expect(server.connections[0]!.sent).toBe(before);
  });

  it('opens no connection where there is nothing to hear and nothing to tell', async () => {
    create({ listening: false });
    await pass(60_000);
    expect(server.attempts).toBe(0);
  });

  it('listens, looks at once since something may have been missed, and checks the connection every 30 s', async () => {
    const signals = create();
    await pass(1);
    expect(signals.arrive).toBe(true);
    expect(woken).toBe(1);
    await pass(90_000);
    expect(server.connections[0]?.listens).toBe(4);
    expect(woken).toBe(1);
    server.connections[0]?.events.onSignal();
    expect(woken).toBe(2);
  });

  it('tries a server that is away again with growing pauses, and says so once', async () => {
    server.down = true;
    const signals = create();
    signals.send();
    await pass(120_000);
    expect(signals.arrive).toBe(false);
    // 0.1, 0.2, … 25.6, 30, 30, 30 s
    expect(server.attempts).toBeGreaterThanOrEqual(9);
    expect(server.attempts).toBeLessThanOrEqual(13);
    expect(lines).toEqual([expect.stringContaining('the server is away')]);
    server.down = false;
    await pass(30_000);
    expect(signals.arrive).toBe(true);
    // What was to be told is told now.
    expect(server.connections[0]?.sent).toBe(1);
    expect(lines.slice(1)).toEqual(['Wake-ups between processes work again']);
  });

  it('opens a lost connection again, and looks at what it may have missed', async () => {
    const signals = create();
    await pass(1);
    server.connections[0]?.events.onLost(new Error('terminated'));
    expect(signals.arrive).toBe(false);
    await pass(200);
    expect(signals.arrive).toBe(true);
    expect(server.connections).toHaveLength(2);
    expect(server.connections[0]?.closed).toBe(true);
    expect(woken).toBe(2);
  });

  it('who only writes opens a lost connection again with the next signal', async () => {
    const signals = create({ listening: false });
    signals.send();
    await pass(30);
    server.connections[0]?.events.onLost(new Error('terminated'));
    await pass(60_000);
    expect(server.attempts).toBe(1);
    signals.send();
    await pass(1);
    expect(server.connections[1]?.sent).toBe(1);
  });

  it('behind a pooler that swallows signals it says so once, goes on sending, and counts as not hearing', async () => {
    server.returns = false;
    const signals = create();
    await pass(120_000);
    expect(signals.arrive).toBe(false);
    expect(lines).toEqual([expect.stringContaining("outbox.wakeUp to 'poll'")]);
    signals.send();
    await pass(1);
    expect(server.connections[0]?.sent).toBe(1);
    server.returns = true;
    await pass(30_000);
    expect(signals.arrive).toBe(true);
  });

  it('the close tells what is still to be told, and ends everything', async () => {
    const signals = create();
    await pass(1);
    signals.send();
    signals.send();
    await signals.close();
    await signals.close();
    expect(server.connections[0]).toMatchObject({ closed: true, sent: 2 });
    signals.send();
    server.connections[0]?.events.onLost(new Error('late'));
    await pass(60_000);
    expect(server.attempts).toBe(1);
    expect(lines).toEqual([]);
    expect(jest.getTimerCount()).toBe(0);
  });

  it('a close while the connection is being opened leaves none open', async () => {
    const signals = create();
    await signals.close();
    await pass(1);
    expect(server.connections[0]?.closed).toBe(true);
  });
});
