import { runInTrace } from '../../message/trace-context';
import { within } from '../../timing/within';
import type { AmqpMessage } from './amqp-message';
import type {
  AmqpError,
  ChannelInternals,
  RawConfirmChannel,
  RawConnection,
  ReturnedMessage,
} from './amqp-types';

export type PublishOutcome =
  | { readonly kind: 'sent' }
  | { readonly kind: 'failed'; readonly error: string }
  /** Written, no answer in time. The channel itself lives on. */
  | { readonly kind: 'unanswered'; readonly error: string }
  /** The channel was closed before the answer came. */
  | { readonly kind: 'lost'; readonly fault: ChannelFault }
  /** The channel was closed already: nothing was written. */
  | { readonly kind: 'closed'; readonly fault: ChannelFault };

/** Why a channel was closed. */
export interface ChannelFault {
  readonly error: string;
  /** Reply code of the server, where the server closed it on purpose. */
  readonly code: number | undefined;
  /** Whether something that was published made the server close it, as opposed to a connection that broke. */
  readonly byMessage: boolean;
}

interface Unanswered {
  returned: string | undefined;
  settle(outcome: PublishOutcome): void;
}

const CLOSED: ChannelFault = {
  error: 'The channel to the broker was closed',
  code: undefined,
  byMessage: false,
};

/** Reply codes with which the server closes a whole connection because of what it was sent (AMQP 0-9-1, 1.2). */
const CONNECTION_BY_MESSAGE = new Set([501, 502, 503, 504, 505, 541]);

/**
 * A raw confirm channel of one's own, with an outcome per message. It has an 'error' listener, so that a channel that
 * the server closes (missing exchange, body over the limit) takes neither the connection nor the app's consumers with it.
 */
export class ConfirmChannel {
  private readonly unanswered = new Map<string, Unanswered>();
  private readonly waiting = new Set<() => void>();
  private full = false;
  private retired = false;
  private fault: ChannelFault | undefined;
  private closing: Promise<void> | undefined;

  /** Resolves when, after the close, the last frame has been handed to the socket (see channel-opener.ts). */
  readonly written: Promise<void>;

  private constructor(
    private readonly raw: RawConfirmChannel,
    readonly connection: RawConnection,
  ) {
    this.written = untilWritten(raw, connection);
    // Listeners before anything is published: an 'error' without one would end the connection.
    raw.on('error', (error: AmqpError) => this.noteFault(error, true));
    raw.on('close', () => this.onClose());
    raw.on('return', (message: ReturnedMessage) => this.onReturn(message));
    raw.on('drain', () => this.release());
    connection.on('error', this.onConnectionError);
  }

  static async open(connection: RawConnection): Promise<ConfirmChannel> {
    return new ConfirmChannel(await connection.createConfirmChannel(), connection);
  }

  /** Whether messages may be published here: not closed, and its counting of confirms can be trusted. */
  get usable(): boolean {
    return !this.fault && !this.retired;
  }

  /** Closed, by whomever. */
  get closed(): boolean {
    return this.fault !== undefined;
  }

  /** False when the write buffer is full; `untilWritable()` waits for it. */
  get writable(): boolean {
    return !this.full;
  }

  /** Resolves when the write buffer has drained or the channel has closed, at the latest after `timeout` ms. */
  untilWritable(timeout: number): Promise<void> {
    if (!this.full) return Promise.resolve();
    return new Promise((resolve) => {
      const done = () => {
        clearTimeout(timer);
        this.waiting.delete(done);
        resolve();
      };
      const timer = setTimeout(done, timeout);
      this.waiting.add(done);
    });
  }

  /**
   * Publishes at once and resolves with the outcome; never rejects.
   *
   * @param timeout milliseconds to wait for the confirm
   */
  publish(message: AmqpMessage, timeout: number): Promise<PublishOutcome> {
    if (this.fault) return Promise.resolve({ kind: 'closed', fault: this.fault });
    const { messageId } = message;
    return new Promise((resolve) => {
      const timer = setTimeout(
        () => entry.settle({ kind: 'unanswered', error: `No confirm from the broker within ${timeout} ms` }),
        timeout,
      );
      const entry: Unanswered = {
        returned: undefined,
        settle: (outcome) => {
          clearTimeout(timer);
          if (this.unanswered.get(messageId) === entry) this.unanswered.delete(messageId);
          resolve(outcome);
          if (this.retired && this.unanswered.size === 0) void this.close();
        },
      };
      this.unanswered.set(messageId, entry);
      try {
        // Instrumentation of amqplib, where there is one, writes the trace that it finds here over the message's own.
        this.full = !runInTrace(message.options.headers, () =>
          this.raw.publish(message.exchange, message.routingKey, message.body, message.options, (error) =>
            entry.settle(this.read(error, entry)),
          ),
        );
      } catch (thrown) {
        entry.settle(this.couldNotPublish(thrown));
      }
    });
  }

  /** Resolves when it is closed or a second has passed: a blocked broker answers no close. */
  close(): Promise<void> {
    this.retired = true;
    // Assigned before it runs: what it settles may call close() again.
    this.closing ??= Promise.resolve().then(() => this.closeRaw());
    return this.closing;
  }

  private async closeRaw(): Promise<void> {
    if (this.fault) return;
    try {
      await within(1_000, this.raw.close());
    } catch {
      // Closed already, which is what was wanted.
    } finally {
      this.onClose();
    }
  }

  /** A return precedes the confirm of the same message, and a returned message is *confirmed*. */
  private read(error: unknown, entry: Unanswered): PublishOutcome {
    if (!error) return entry.returned ? { kind: 'failed', error: entry.returned } : { kind: 'sent' };
    if (error instanceof Error && error.message === 'message nacked') {
      return {
        kind: 'failed',
        error: 'Refused by the broker (nacked): a queue is full, or the broker had an error',
      };
    }
    return { kind: 'lost', fault: this.fault ?? CLOSED };
  }

  /**
   * amqplib has counted the message before it found that it cannot be encoded: from here on it would hand each confirm
   * to the message before the right one. What was written earlier is still answered rightly; nothing more may follow.
   */
  private couldNotPublish(thrown: unknown): PublishOutcome {
    const error = thrown instanceof Error ? thrown : new Error(String(thrown));
    if (error.name === 'IllegalOperationError') {
      this.noteFault(error, false);
      return { kind: 'closed', fault: this.fault ?? CLOSED };
    }
    this.retired = true;
    this.release();
    return { kind: 'failed', error: `Cannot be sent by AMQP: ${error.message}` };
  }

  private onReturn({ fields, properties }: ReturnedMessage): void {
    const entry = this.unanswered.get(String(properties.messageId));
    if (entry)
      entry.returned = `Returned by the broker: ${fields.replyCode} ${fields.replyText} (no queue is bound for it)`;
  }

  private readonly onConnectionError = (error: AmqpError) =>
    this.noteFault(error, CONNECTION_BY_MESSAGE.has(Number(error.code)));

  /** The first word counts: what follows is only the consequence. */
  private noteFault(error: AmqpError, byMessage: boolean): void {
    const code = typeof error.code === 'number' ? error.code : undefined;
    this.fault ??= { error: error.message, code, byMessage };
  }

  private onClose(): void {
    this.connection.off('error', this.onConnectionError);
    this.fault ??= CLOSED;
    const { fault } = this;
    this.release();
    for (const entry of [...this.unanswered.values()]) entry.settle({ kind: 'lost', fault });
  }

  private release(): void {
    this.full = false;
    for (const done of [...this.waiting]) done();
  }
}

function untilWritten(raw: RawConfirmChannel, connection: RawConnection): Promise<void> {
  const internals: ChannelInternals = raw as object;
  const buffer = internals.connection?.channels?.[internals.ch ?? -1]?.buffer;
  if (!buffer?.once) return Promise.resolve();
  return new Promise((resolve) => {
    const done = () => {
      connection.off('close', done);
      resolve();
    };
    connection.on('close', done);
    buffer.once?.('close', done);
  });
}
