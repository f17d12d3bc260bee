import { setImmediate as turn } from 'node:timers/promises';
import { SchedulerRegistry } from '@nestjs/schedule';
import type { IdentifiedDelivery } from '../../../lib/inbox/delivery';
import type { InboundMessage } from '../../../lib/inbox/inbound-message';
import { InboxProcessor, type InboxProcessorParts } from '../../../lib/inbox/inbox-processor';
import type { KeptHandler } from '../../../lib/inbox/kept-handler';
import type { KeptRun } from '../../../lib/inbox/kept-run';
import { Pauses } from '../../../lib/inbox/pauses';
import { RunningDeliveries } from '../../../lib/inbox/running-deliveries';
import { SuspectsLane } from '../../../lib/inbox/suspects-lane';
import type { ClaimedInboxMessage, InboxKey, KeptMessage } from '../../../lib/persistence/inbox-message';
import type { StoredMessage, StoringClaim } from '../../../lib/persistence/kept-inbox-statements';

/** Handlers at once; as many may wait here, and a claim is made for half of both. */
const SIZE = 2;

const message = (messageId: string, orderingKey: string | null = null): KeptMessage => ({
  consumer: 'c',
  messageId,
  exchange: '',
  routingKey: '',
  redelivered: false,
  body: Buffer.from('{}'),
  headers: null,
  properties: null,
  orderingKey,
});

const messages = (...ids: string[]) => ids.map((id) => message(id));

interface Row {
  readonly message: KeptMessage;
  status: 'open' | 'in_progress' | 'done';
  token: string | undefined;
  suspect: boolean;
}

/** The table in memory, and handlers that run until they are told to end. */
class World {
  readonly rows = new Map<string, Row>();
  readonly running = new Map<string, () => void>();
  readonly claims: string[][] = [];
  readonly released: string[] = [];
  readonly pauses = new Pauses();
  readonly processor: InboxProcessor;
  readonly lane = new SuspectsLane();
  commit: () => void = () => undefined;
  private readonly runs = new WeakMap<object, KeptRun>();

  constructor() {
    const handling = {
      isJoined: false,
      run: async ({ claim, handle, key }: IdentifiedDelivery) => {
        await claim?.leave();
        await handle();
        Object.assign(this.rows.get(key?.messageId ?? '') as Row, { status: 'done', token: undefined });
        return { kind: 'handled', value: undefined };
      },
    };
    const store = {
      anythingDue: () => Promise.resolve([...this.rows.values()].some(({ status }) => status === 'open')),
      claim: ({ token, limit }: { token: string; limit: number }) =>
        Promise.resolve(this.claim(token, limit)),
      renew: (_token: string, _lease: number, all: readonly unknown[]) => Promise.resolve(all.length),
      release: (key: InboxKey, token: string) => Promise.resolve(this.release(key, token)),
      countSuspect: () => Promise.resolve(1),
      waitingConsumers: () => Promise.resolve([]),
    };
    this.processor = new InboxProcessor({
      name: undefined,
      scheduler: new SchedulerRegistry(),
      store,
      running: new RunningDeliveries(),
      gate: { size: SIZE },
      run: {
        store,
        handling,
        transaction: { isTransient: () => false },
        lane: this.lane,
        pauses: this.pauses,
        notify: (delay: number) => this.processor.notify(delay),
        alarm: { raise: () => undefined },
        runs: this.runs,
      },
      pollInterval: 600_000,
      lease: 600_000,
    } as unknown as InboxProcessorParts);
    this.processor.add({
      name: 'C.handle',
      policy: { consumer: 'c', maxAttempts: 1 },
      decode: () => ({}),
      invoke: (_payload: unknown, raw: InboundMessage) =>
        this.runs.get(raw)?.intercept(() => this.handler(raw)),
    } as unknown as KeptHandler);
    this.processor.start();
  }

  private handler(raw: InboundMessage): Promise<void> {
    const run = this.runs.get(raw) as unknown as { row: ClaimedInboxMessage };
    return new Promise((resolve) => this.running.set(run.row.messageId, resolve));
  }

  /** The statement that stores. */
  readonly store =
    (all: readonly KeptMessage[]) =>
    (claim?: StoringClaim): Promise<StoredMessage[]> => {
      const fresh = all.filter(({ messageId }) => !this.rows.has(messageId));
      for (const each of fresh) {
        const token = claim?.messages.has(each) ? claim.token : undefined;
        this.rows.set(each.messageId, {
          message: each,
          status: token ? 'in_progress' : 'open',
          token,
          suspect: false,
        });
      }
      return Promise.resolve(fresh.map((each) => ({ ...each, seq: '1', attempts: 0, lastError: null })));
    };

  async stores(all: readonly KeptMessage[], store = this.store(all)): Promise<string[]> {
    const stored = await this.processor.storing(all, store);
    await settled();
    return stored.map(({ messageId }) => messageId);
  }

  async end(...ids: string[]): Promise<void> {
    for (const id of ids) {
      this.running.get(id)?.();
      this.running.delete(id);
    }
    await settled();
  }

  get active(): string[] {
    return [...this.running.keys()];
  }

  open(id: string, suspect = false): void {
    this.rows.set(id, { message: message(id), status: 'open', token: undefined, suspect });
  }

  private claim(token: string, limit: number): ClaimedInboxMessage[] {
    const claimed = [...this.rows.values()].filter(({ status }) => status === 'open').slice(0, limit);
    for (const row of claimed) Object.assign(row, { status: 'in_progress', token });
    this.claims.push(claimed.map(({ message: { messageId } }) => messageId));
    return claimed.map((row) => ({
      ...row.message,
      seq: '1',
      attempts: 0,
      lastError: null,
      suspect: row.suspect,
    }));
  }

  private release({ messageId }: InboxKey, token: string): boolean {
    const row = this.rows.get(messageId);
    if (row?.token !== token) return false;
    Object.assign(row, { status: 'open', token: undefined });
    this.released.push(messageId);
    return true;
  }
}

async function settled(): Promise<void> {
  for (let n = 0; n < 10; n++) await turn();
}

const done = { status: 'done', token: undefined, suspect: false } as const;

describe('what this process stores', () => {
  let world: World;
  beforeEach(async () => {
    world = new World();
    await settled();
    world.claims.length = 0;
  });
  afterEach(() => world.processor.stop(0));

  /** A statement that takes place, at once or when the world says so, without an answer. */
  const lostAnswer =
    (all: readonly KeptMessage[], when: 'now' | 'later' = 'now') =>
    async (claim?: StoringClaim): Promise<StoredMessage[]> => {
      world.commit = () => void world.store(all)(claim);
      if (when === 'now') world.commit();
      return Promise.reject(new Error('connection lost'));
    };

  it('is begun at once where there is room, without a claim; the rest is claimed when half of the room is free', async () => {
    expect(await world.stores(messages('a', 'b', 'c', 'd', 'e'))).toEqual(['a', 'b', 'c', 'd', 'e']);
    expect(world.active).toEqual(['a', 'b', 'c', 'd']);
    expect(world.claims).toEqual([]);
    await world.end('a');
    expect(world.active).not.toContain('e');
    await world.end('b');
    expect(world.claims).toEqual([['e']]);
    expect(world.active).toEqual(['c', 'd', 'e']);
  });

  it('with an ordering key is claimed', async () => {
    await world.stores([message('a', 'k')]);
    expect(world.claims).toEqual([['a']]);
  });

  it('does not overtake what others wait for: what a poll is to find', async () => {
    await world.stores(messages('a', 'b', 'c', 'd'));
    // Found by a poll: nobody has told of it.
    world.open('due');
    (world.processor as unknown as { wake(): void }).wake();
    await settled();
    expect(world.claims).toEqual([]);
    for (const [ends, comes] of [
      ['a', 'x'],
      ['b', 'y'],
    ] as const) {
      await world.end(ends);
      await world.stores(messages(comes));
    }
    expect(world.claims[0]).toContain('due');
    expect(world.active).toContain('due');
  });

  it('gives its places back when it was a duplicate, and what became due meanwhile is claimed then', async () => {
    for (const id of ['a', 'b', 'c', 'd']) world.rows.set(id, { ...done, message: message(id) });
    let answer: () => void = () => undefined;
    const storing = world.stores(
      messages('a', 'b', 'c', 'd'),
      () => new Promise((resolve) => (answer = () => resolve([]))),
    );
    await settled();
    world.open('due');
    world.processor.notify();
    await settled();
    expect(world.claims).toEqual([]);
    answer();
    expect(await storing).toEqual([]);
    expect(world.claims).toEqual([['due']]);
  });

  it('is found when the answer to its commit was lost, and costs no attempt', async () => {
    const all = messages('a', 'b');
    await expect(world.stores(all, lostAnswer(all.slice(0, 1)))).rejects.toThrow('connection lost');
    expect(world.rows.get('a')?.status).toBe('in_progress');
    expect(world.active).toEqual([]);
    expect(await world.stores(all)).toEqual(['a', 'b']);
    expect(world.released).toEqual(['a']);
    expect([...world.active].sort()).toEqual(['a', 'b']);
    expect(await world.stores(all)).toEqual([]);
  });

  it.each(['a poll', 'the stop'])(
    'whose answer was lost, and that nobody stores again, is opened by %s',
    async (by) => {
      const all = messages('a');
      await expect(world.stores(all, lostAnswer(all))).rejects.toThrow('connection lost');
      if (by === 'a poll') (world.processor as unknown as { wake(): void }).wake();
      else await world.processor.stop(0);
      await settled();
      expect(world.released).toEqual(['a']);
      expect(world.active).toEqual(by === 'a poll' ? ['a'] : []);
    },
  );

  it('whose commit was still under way when it was stored again is found after that', async () => {
    const all = messages('a');
    await expect(world.stores(all, lostAnswer(all, 'later'))).rejects.toThrow('connection lost');
    const stored = await world.stores(all, () => {
      world.commit();
      return world.store(all)();
    });
    expect(stored).toEqual(['a']);
    expect(world.active).toEqual(['a']);
  });

  it('that was opened again is no duplicate, even if the database goes away once more in between', async () => {
    const all = messages('a');
    await expect(world.stores(all, lostAnswer(all))).rejects.toThrow('connection lost');
    await expect(world.stores(all, () => Promise.reject(new Error('away')))).rejects.toThrow('away');
    expect(world.released).toEqual(['a']);
    expect(await world.stores(all)).toEqual(['a']);
    expect(world.active).toEqual(['a']);
  });

  it('is given back when the application stops while it is being stored', async () => {
    let answer: () => void = () => undefined;
    const all = messages('a');
    const storing = world.stores(all, async (claim) => {
      await new Promise<void>((resolve) => (answer = resolve));
      return world.store(all)(claim);
    });
    await settled();
    await world.processor.stop(0);
    answer();
    expect(await storing).toEqual(['a']);
    expect(world.released).toEqual(['a']);
    expect(world.active).toEqual([]);
  });

  it('fills idle places while a claim is under way, and no more', async () => {
    let claim: () => void = () => undefined;
    const { store } = (world.processor as unknown as { parts: InboxProcessorParts }).parts;
    const original = store.claim.bind(store);
    store.claim = async (request) => {
      await new Promise<void>((resolve) => (claim = resolve));
      return original(request);
    };
    await world.stores([message('keyed', 'k')]);
    await world.stores(messages('a', 'b', 'c', 'd'));
    expect(world.active).toEqual(['a', 'b']);
    claim();
    await settled();
    claim();
    await settled();
    expect([...world.active].sort()).toEqual(['a', 'b', 'c', 'd', 'keyed']);
  });

  it('suspects that wait for their turn do not keep others from being claimed', async () => {
    for (const id of ['s1', 's2', 's3']) world.open(id, true);
    world.processor.notify();
    await settled();
    expect(world.claims.at(-1)).toEqual(['s1', 's2', 's3']);
    expect(world.active).toEqual(['s1']);
    world.open('due');
    world.processor.notify();
    await settled();
    expect(world.active).toEqual(['s1', 'due']);
  });
});
