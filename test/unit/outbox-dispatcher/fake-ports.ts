import type { QueryRunner } from 'typeorm';
import type { Dialect } from '../../../lib/persistence/dialect';
import type { LockRow, LockStatements } from '../../../lib/persistence/lock-statements';
import type {
  ClaimedMessage,
  ClaimRequest,
  OutboxStatements,
  Settlement,
} from '../../../lib/persistence/outbox-statements';
import type { Availability, SendLimits, SendOutcome, Transport } from '../../../lib/transport/transport';

interface Row extends ClaimedMessage {
  status: 'ready' | 'scheduled' | 'dead' | 'sent';
  due: number;
  token: string | undefined;
  claimedUntil: number;
  error: string | undefined;
  attempts: number;
}

/** The ports to the database in memory, by the rules of P3. The runner is not used. */
export class FakeDatabase {
  rows: Row[] = [];
  lock: { owner: string; fence: number; until: number } | undefined;
  readonly calls: string[] = [];
  /** Makes the next calls fail. */
  down = false;
  readonly settlements: Settlement[] = [];

  add(...messages: Partial<ClaimedMessage>[]): void {
    for (const message of messages) {
      const seq = String(this.rows.length + 1);
      this.rows.push({
        seq,
        messageId: `id-${seq}`,
        exchange: 'ex',
        routingKey: 'key',
        body: '',
        bodyEncoding: 'utf8',
        headers: null,
        properties: null,
        orderingKey: null,
        createdAt: new Date(),
        expired: false,
        attempts: 0,
        retry: null,
        transport: 'rabbitmq',
        ...message,
        status: 'ready',
        due: 0,
        token: undefined,
        claimedUntil: 0,
        error: undefined,
      });
    }
  }

  get open(): Row[] {
    return this.rows.filter(({ status }) => status === 'ready' || status === 'scheduled');
  }

  readonly outbox: OutboxStatements = {
    insert: () => Promise.reject(new Error('not used')),
    anythingDue: () => this.call('anythingDue', () => this.due().length > 0),
    untilNextDate: () =>
      this.call('untilNextDate', () => {
        const dates = this.open
          .filter(({ status }) => status === 'scheduled')
          .map(({ due }) => due - Date.now());
        return dates.length === 0 ? undefined : Math.min(...dates);
      }),
    claim: (_runner: QueryRunner, { token, lease, limit }: ClaimRequest) =>
      this.call('claim', () => {
        const now = Date.now();
        const busy = new Set(
          this.open
            .filter((row) => row.claimedUntil > now || (row.status === 'scheduled' && row.due > now))
            .map((row) => row.orderingKey),
        );
        const claimed = this.due()
          .filter((row) => row.orderingKey === null || !busy.has(row.orderingKey))
          .slice(0, limit);
        for (const row of claimed) Object.assign(row, { status: 'ready', token, claimedUntil: now + lease });
        return claimed.map((row) => ({ ...row }));
      }),
    renew: (_runner, token, lease) =>
      this.call('renew', () => {
        const mine = this.rows.filter((row) => row.token === token);
        for (const row of mine) row.claimedUntil = Date.now() + lease;
        return mine.length;
      }),
    settle: (_runner, settlement) =>
      this.call('settle', () => {
        this.settlements.push(settlement);
        const free = { token: undefined, claimedUntil: 0 };
        const change = (seq: string, changes: (row: Row) => Partial<Row>) => {
          const row = this.rows.find((each) => each.seq === seq && each.token === settlement.token);
          if (row) Object.assign(row, free, changes(row));
          return row ? 1 : 0;
        };
        let settled = 0;
        const dead: string[] = [];
        for (const { seq, error, next } of settlement.failed) {
          settled += change(seq, ({ attempts }) => ({
            attempts: attempts + 1,
            error,
            status: next === 'dead' ? 'dead' : 'scheduled',
            due: next === 'dead' ? 0 : Date.now() + next,
          }));
          if (next === 'dead') dead.push(seq);
        }
        for (const seq of settlement.sent) settled += change(seq, () => ({ status: 'sent' }));
        for (const seq of settlement.released) settled += change(seq, () => ({}));
        for (const { seq, delay } of settlement.postponed ?? []) {
          settled += change(seq, () => ({ token: settlement.token, claimedUntil: Date.now() + delay }));
        }
        return { settled, dead };
      }),
    deleteSent: (_runner, _olderThan, limit) =>
      this.call('deleteSent', () => {
        const sent = this.rows.filter(({ status }) => status === 'sent').slice(0, limit);
        this.rows = this.rows.filter((row) => !sent.includes(row));
        return sent.length;
      }),
  };

  readonly locks: LockStatements = {
    isFree: () => this.call('isFree', () => !this.lock || this.lock.until <= Date.now()),
    take: (_runner, _name, owner, atMostFor) =>
      this.call('take', (): LockRow | undefined => {
        if (this.lock && this.lock.until > Date.now()) return undefined;
        this.lock = { owner, fence: (this.lock?.fence ?? 0) + 1, until: Date.now() + atMostFor };
        return this.lockRow();
      }),
    extend: (_runner, _name, owner, fence, atMostFor) =>
      this.call('extend', (): LockRow | undefined => {
        if (!this.holds(owner, fence)) return undefined;
        this.lock!.until = Date.now() + atMostFor;
        return this.lockRow();
      }),
    release: (_runner, _name, owner, fence) =>
      this.call('release', () => {
        if (!this.holds(owner, fence)) return false;
        this.lock!.until = Date.now();
        return true;
      }),
  };

  get dialect(): Dialect {
    return {
      outbox: this.outbox,
      lock: this.locks,
      isRetryable: () => false,
      isConnectionFault: () => true,
    } as unknown as Dialect;
  }

  private holds(owner: string, fence: string): boolean {
    const { lock } = this;
    return lock?.owner === owner && String(lock.fence) === fence && lock.until > Date.now();
  }

  private lockRow(): LockRow {
    return { fence: String(this.lock!.fence), lockedUntil: new Date(this.lock!.until) };
  }

  private due(): Row[] {
    const now = Date.now();
    return this.open.filter((row) => row.due <= now && row.claimedUntil <= now);
  }

  private call<T>(name: string, work: () => T): Promise<T> {
    this.calls.push(name);
    if (this.down) return Promise.reject(new Error('the database is away'));
    return Promise.resolve().then(work);
  }
}

/** A transport whose answers the test gives. */
export class FakeTransport implements Transport {
  state: Availability = { available: true };
  readonly listeners = new Set<() => void>();
  readonly sent: string[] = [];
  answer: (message: ClaimedMessage, limits: SendLimits) => SendOutcome | Promise<SendOutcome> = () => ({
    kind: 'sent',
  });

  availability = () => this.state;
  onAvailable(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => void this.listeners.delete(listener);
  }
  async send(message: ClaimedMessage, limits: SendLimits): Promise<SendOutcome> {
    if (!limits.mayStart()) return { kind: 'unsent', error: 'may not start' };
    this.sent.push(message.messageId);
    return this.answer(message, limits);
  }
  close = () => Promise.resolve();
  becomes(state: Availability): void {
    this.state = state;
    if (state.available) for (const listener of this.listeners) listener();
  }
}
