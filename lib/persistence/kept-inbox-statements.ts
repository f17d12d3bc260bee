import type { QueryRunner } from 'typeorm';
import type { ClaimedInboxMessage, InboxKey, KeptMessage } from './inbox-message';

export interface InboxClaimRequest {
  readonly token: string;
  /** Milliseconds. */
  readonly lease: number;
  /** Messages at most. */
  readonly limit: number;
  /** Only messages of these. */
  readonly consumers: readonly string[];
}

/** Who claims what is being stored. */
export interface StoringClaim {
  readonly token: string;
  /** Milliseconds. */
  readonly lease: number;
  /** Those of the messages that are claimed. */
  readonly messages: ReadonlySet<KeptMessage>;
}

/** A message that was stored. */
export interface StoredMessage extends InboxKey {
  readonly seq: string;
  readonly attempts: number;
  readonly lastError: string | null;
}

/** How a run of a claimed message has failed. */
export interface FailedRun {
  readonly key: InboxKey;
  readonly token: string;
  readonly attempts: number;
  readonly error: string;
  /** Milliseconds until the next run, or `'dead'`. */
  readonly next: number | 'dead';
}

/** The statements about messages that the inbox table owns: P1 step 6 with the policy `retry`, and steps 7 to 9. */
export interface KeptInboxStatements {
  /**
   * P1 step 6, policy `retry`: the table owns the message from here on, open and due after the delay.
   *
   * @param attempts what the row says then
   * @param delay milliseconds
   * @returns false when the row is past `seen`: another copy was quicker
   */
  keep(
    runner: QueryRunner,
    message: KeptMessage,
    failure: { readonly attempts: number; readonly error: string; readonly delay: number },
  ): Promise<boolean>;

  /**
   * Stores messages as open, due at once, in the order given; each key once. Rows past `seen` are left alone.
   *
   * @param claim stores some of them as claimed, as if a claim had found them right after: only messages without an ordering
   *   key, since a claim would have looked whose turn it is
   * @returns what was stored; the others are duplicates
   */
  store(
    runner: QueryRunner,
    messages: readonly KeptMessage[],
    claim?: StoringClaim,
  ): Promise<StoredMessage[]>;

  /** Whether the table owns a message of the consumer with this ordering key that is not done yet. */
  isKeyOpen(runner: QueryRunner, consumer: string, orderingKey: string): Promise<boolean>;

  /** Whether a claim may find anything, and whether the table owns any message at all, of whatever consumer. */
  anyKept(runner: QueryRunner, consumers: readonly string[]): Promise<{ due: boolean; kept: boolean }>;

  /** P1 step 7; of one ordering key one message, the first. @returns in the order of storing */
  claimKept(runner: QueryRunner, request: InboxClaimRequest): Promise<ClaimedInboxMessage[]>;

  /** For messages that wait in the process, never for one whose transaction has begun. @returns how many were ours */
  renewKept(runner: QueryRunner, token: string, lease: number, keys: readonly InboxKey[]): Promise<number>;

  /** Counts a suspect before its run. @returns its attempts then, or `undefined` when it is not ours any more */
  countSuspect(runner: QueryRunner, key: InboxKey, token: string): Promise<number | undefined>;

  /** P1 step 8, the first statement of the handler's transaction. @returns false when it is not ours any more */
  takeKept(runner: QueryRunner, key: InboxKey, token: string): Promise<boolean>;

  /** P1 step 9. @returns false when it is not ours any more */
  failKept(runner: QueryRunner, run: FailedRun): Promise<boolean>;

  /** Gives back what was not handled; a suspect stays one. @param until its `delay` in milliseconds it is not due */
  releaseKept(
    runner: QueryRunner,
    key: InboxKey,
    token: string,
    until: { readonly delay: number; readonly suspect: boolean },
  ): Promise<boolean>;

  /** How many messages are open, counted up to `limit`. */
  backlog(runner: QueryRunner, limit: number): Promise<number>;

  /** Consumers other than these whose messages have been due for that many milliseconds. */
  waitingConsumers(runner: QueryRunner, others: readonly string[], overdue: number): Promise<string[]>;
}
