import { AsyncResource } from 'node:async_hooks';
import type { LoggerService } from '@nestjs/common';
import type { OpenSignals, SignalConnection } from '../persistence/signals';
import { guardedLogger } from '../scheduling/guarded-logger';
import { runOutsideScopes } from '../transaction/transaction-context';

export interface OutboxSignalsDependencies {
  readonly open: OpenSignals;
  /** Called when another process has written messages, or may have. Left out where this process does not dispatch. */
  readonly onSignal?: () => void;
  readonly logger: LoggerService;
}

/** Milliseconds between two signals of this process. */
const THROTTLE = 20;
/** Milliseconds between two checks of the connection. */
const CHECK = 30_000;
/** Milliseconds until a connection that was lost is tried again: the first pause, doubled up to the longest. */
const FIRST_PAUSE = 100;
const LONGEST_PAUSE = 30_000;

/**
 * Wakes the dispatchers of other processes, and is woken by them. Only a hint: polling finds every message without it.
 *
 * 1. A signal is sent after a commit, never inside a transaction of the application, which it would make three times
 *    slower; at most one in 20 ms, so that one covers many commits.
 * 2. Where this process dispatches, the connection is opened at the start and listens. It is checked every 30 s by a signal
 *    to itself. Else it is opened with the first signal.
 * 3. A connection that is lost is opened again, with growing pauses. The loss is logged once. Then whoever listens looks at
 *    once, since signals may have been missed.
 */
export class OutboxSignals {
  /** What lives this long belongs to no transaction. */
  private readonly context = runOutsideScopes(() => new AsyncResource('InboxOutboxSignals'));
  private readonly logger: LoggerService;
  private connection: SignalConnection | undefined;
  private opening: Promise<void> | undefined;
  private pause: NodeJS.Timeout | undefined;
  private check: NodeJS.Timeout | undefined;
  private throttle: NodeJS.Timeout | undefined;
  private sending: Promise<void> | undefined;
  private closing: Promise<void> | undefined;
  private wanted = false;
  private hears = false;
  private deaf = false;
  private outage = false;
  private failures = 0;

  constructor(private readonly use: OutboxSignalsDependencies) {
    this.logger = guardedLogger(use.logger);
  }

  /** Whether signals of other processes certainly arrive here. */
  get arrive(): boolean {
    return this.hears;
  }

  /** Begins to listen, where this process dispatches. */
  start(): void {
    if (this.use.onSignal) this.context.runInAsyncScope(() => this.connect());
  }

  /** Tells the other processes that something was committed. Cheap, and many calls make one signal. Never throws. */
  send(): void {
    if (this.closing) return;
    this.wanted = true;
    this.context.runInAsyncScope(() => this.flush());
  }

  /** Sends what is still to be told and closes the connection. May be called twice; never rejects. */
  close(): Promise<void> {
    this.closing ??= this.end();
    return this.closing;
  }

  private connect(): void {
    if (this.closing || this.connection || this.opening || this.pause) return;
    this.opening = this.open()
      .catch((error: unknown) => this.failed(error))
      .finally(() => {
        this.opening = undefined;
        // Lost while it waited for its first signal to itself, and the pause after that has ended meanwhile.
        if (!this.connection && (this.use.onSignal || this.wanted)) this.connect();
      });
  }

  private async open(): Promise<void> {
    const connection = await this.use.open({
      onSignal: () => this.use.onSignal?.(),
      onLost: (cause) => this.failed(cause),
    });
    if (this.closing) return connection.close();
    this.connection = connection;
    if (this.outage) this.logger.log('Wake-ups between processes work again');
    this.outage = false;
    this.flush();
    if (this.use.onSignal) await this.listen(connection);
    this.failures = 0;
  }

  private async listen(connection: SignalConnection): Promise<void> {
    const hears = await connection.listen();
    if (connection !== this.connection || this.closing) return;
    if (!hears && !this.deaf) {
      this.logger.warn(
        'Wake-ups by other processes do not arrive, as behind a connection pooler in transaction mode: their messages are ' +
          "found by polling. Set outbox.wakeUp to 'poll' to do without, or give the data source a direct connection.",
      );
    }
    this.deaf = !hears;
    const began = hears && !this.hears;
    this.hears = hears;
    if (began) this.use.onSignal?.();
    this.check = setTimeout(() => {
      this.listen(connection).catch((error: unknown) => this.failed(error));
    }, CHECK).unref();
  }

  private flush(): void {
    if (!this.wanted || this.throttle || this.sending) return;
    if (!this.connection) return this.connect();
    this.wanted = false;
    this.throttle = setTimeout(() => {
      this.throttle = undefined;
      this.flush();
    }, THROTTLE).unref();
    this.sending = this.connection
      .send()
      .catch((error: unknown) => this.failed(error))
      .finally(() => {
        this.sending = undefined;
        this.flush();
      });
  }

  private failed(error: unknown): void {
    const { connection } = this;
    this.connection = undefined;
    this.hears = false;
    clearTimeout(this.check);
    void connection?.close();
    if (this.closing || this.pause) return;
    if (!this.outage) {
      this.logger.warn(
        `Wake-ups between processes do not work at the moment, messages are found by polling: ${String(error)}`,
      );
    }
    this.outage = true;
    const pause = Math.min(FIRST_PAUSE * 2 ** this.failures++, LONGEST_PAUSE);
    this.pause = setTimeout(() => {
      this.pause = undefined;
      // Who only writes has time until there is something to tell.
      if (this.use.onSignal || this.wanted) this.connect();
    }, pause).unref();
  }

  private async end(): Promise<void> {
    for (const timer of [this.pause, this.check, this.throttle]) clearTimeout(timer);
    const { connection, wanted } = this;
    await this.sending;
    if (wanted) await connection?.send().catch(() => undefined);
    this.hears = false;
    await connection?.close();
  }
}
