import { Injectable, Logger } from '@nestjs/common';
import type { DataSource } from 'typeorm';
import { InvalidOptionError } from '../message/invalid-option.error';
import type { InboxKey } from '../persistence/inbox-statements';
import { afterEnd } from '../transaction/after-commit';
import type { ConcurrencyGate } from '../transaction/concurrency-gate';
import { contentHash } from './content-hash';
import { FingerprintConflictError } from './fingerprint-conflict.error';
import type { Fingerprints } from './fingerprints';
import { describe, type TransactionalWork } from './delivery';
import { consumerName } from './idempotent.options';
import { inboxContext, type InboxContext } from './inbox-context';
import type { InboxStore } from './inbox-store';
import type { Attempt, InboxTransaction } from './inbox-transaction';
import { asMessageId } from './message-id';
import { MessageIdError } from './message-id.error';
import type { Pauses } from './pauses';
import { resolveProcessOptions, type ProcessOptions, type ProcessResult } from './process-options';
import type { RunningDeliveries } from './running-deliveries';

/** Reruns at once after serialization failures and deadlocks. */
const MAX_CONFLICTS = 5;

export interface InboxServiceParts {
  readonly dataSource: DataSource;
  readonly store: InboxStore;
  readonly transaction: InboxTransaction;
  readonly gate: ConcurrencyGate;
  readonly pauses: Pauses;
  readonly running: RunningDeliveries;
  readonly fingerprints: Fingerprints;
  /** Called for each duplicate. */
  readonly onDuplicate: () => void;
  /** Milliseconds, for work that says nothing else. */
  readonly timeout: number | undefined;
}

/**
 * The inbox for messages that no golevelup handler receives: HTTP webhooks, Kafka, a file import. What `@Idempotent()` does
 * for a handler, `process()` does for a function.
 */
@Injectable()
export class InboxService {
  private readonly logger = new Logger('Inbox');

  constructor(private readonly parts: InboxServiceParts) {}

  /**
   * Runs `work` unless this message was processed before. What it writes to the data source, what it publishes through the
   * outbox and the message's id are committed in one transaction, which everything that uses the data source joins.
   *
   * - A copy that comes at the same time waits until the first has ended: it is a duplicate then, or it is its turn.
   * - Inside an active transaction it is a savepoint of that: the message counts as processed when the outer one commits.
   * - When it fails, nothing of it is kept and the error is thrown, so that whoever sent the message sends it again. The
   *   error is noted in the message's row after the end of the outermost transaction.
   * - Serialization failures and deadlocks run `work` again at once, up to five times, except inside another transaction.
   *
   * Answer the sender after this has resolved; what `work` does outside of the database is not undone by a rollback.
   *
   * @param consumer identity under which messages are remembered, at most 255 bytes, e.g. `payments-webhook`
   * @param messageId the sender's id of the message, at most 255 bytes; `42` and `'42'` are one id
   * @param work gets what {@link inboxContext} gives inside of it
   * @returns whether it is a duplicate, and otherwise what `work` has returned
   * @throws {InvalidOptionError} for a consumer or an option that cannot work, before any SQL
   * @throws {MessageIdError} for an id that is missing, blank or cannot be kept, before any SQL
   * @throws {FingerprintConflictError} when the id is that of another message with other `content`
   * @throws {HandlerTimeoutError} when `work` took longer than `timeout`
   * @throws {ShuttingDownError} when the application stops
   * @throws whatever `work` or the database throws
   */
  async process<T>(
    consumer: string,
    messageId: string | number | bigint,
    work: (context: InboxContext) => T | Promise<T>,
    options: ProcessOptions = {},
  ): Promise<ProcessResult<T>> {
    const key = keyOf(consumer, messageId);
    const { timeout = this.parts.timeout, isolationLevel, content } = resolveProcessOptions(options);
    if (typeof work !== 'function') throw new InvalidOptionError('process().work', work, 'a function');
    const hash = content === undefined ? undefined : contentHash(content);
    const item = {
      key,
      hash,
      policy: { consumer: key.consumer, onDuplicate: 'skip' as const, timeout, isolationLevel },
      attempt: 1,
      handle: async () => {
        if (hash !== undefined) await this.parts.fingerprints.note(key, hash);
        return work(inboxContext() as InboxContext);
      },
    };
    return this.parts.running.track((abort) => this.settle<T>(item, abort));
  }

  private async settle<T>(item: Item, abort: AbortSignal): Promise<ProcessResult<T>> {
    const attempt = this.parts.transaction.isJoined
      ? await this.parts.transaction.run({ ...item, isJoining: true }, abort)
      : await this.runAlone(item, abort);
    if (attempt.kind === 'handled') return { duplicate: false, value: attempt.value as T };
    if (attempt.kind === 'duplicate') {
      const { key, hash } = item;
      if (hash !== undefined && (await this.parts.fingerprints.isOther(key, hash, true))) {
        throw new FingerprintConflictError(key.consumer, key.messageId);
      }
      this.parts.onDuplicate();
      this.logger.debug(`The ${describe(item)} is a duplicate; it was not processed again.`);
      return { duplicate: true };
    }
    this.noteFailure(item.key, attempt.error);
    throw attempt.error;
  }

  /** In a transaction of its own. */
  private async runAlone(item: Item, abort: AbortSignal): Promise<Attempt> {
    const { gate, transaction, pauses } = this.parts;
    // Work inside of a handler belongs to it: it goes on during a shutdown, and waiting for a place could be for ever.
    const isInside = inboxContext() !== undefined;
    const run = async () => {
      if (!isInside) pauses.assertRunning();
      return transaction.run(item, abort);
    };
    for (let conflicts = 0; ; conflicts++) {
      const attempt = isInside ? await run() : await gate.run(run);
      if (attempt.kind !== 'conflict' || conflicts === MAX_CONFLICTS) return attempt;
      await pauses.wait(Math.random() * 10 * 2 ** (conflicts + 1));
    }
  }

  /**
   * Not before the outermost transaction has ended: that one may hold the row's lock, and would wait for itself. And nobody
   * waits for it, since a copy that came meanwhile may hold the row for long.
   */
  private noteFailure(key: InboxKey, error: unknown): void {
    const { dataSource, running, store, transaction } = this.parts;
    const note = () => {
      running
        .track(() => store.recordFailure(key, error))
        .catch((reason: unknown) =>
          this.logger.debug(`The error of the ${describeKey(key)} could not be noted: ${String(reason)}`),
        );
    };
    if (afterEnd(dataSource, note)) return;
    // Another library's transaction does not tell when it ends.
    if (!transaction.isJoined) note();
  }
}

type Item = TransactionalWork & { readonly key: InboxKey; readonly hash: string | undefined };

const describeKey = (key: InboxKey): string => describe({ key, policy: { consumer: key.consumer } });

function keyOf(consumer: string, value: unknown): InboxKey {
  const name = consumerName('process().consumer', consumer);
  const messageId = asMessageId(value);
  if (messageId === undefined) {
    throw new MessageIdError(
      value,
      'is missing, so nothing can tell whether the message was processed before',
    );
  }
  return { consumer: name, messageId };
}
