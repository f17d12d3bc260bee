import type { QueryRunner } from 'typeorm';
import type { ClaimedMessage, ClaimRequest } from './outbox-statements';

/** A local handler that has room for more messages. */
export interface HandlerRoom {
  /** The `routing_key` of its rows. */
  readonly name: string;
  /** How many messages at most. */
  readonly limit: number;
}

export interface LocalClaimRequest extends Pick<ClaimRequest, 'token' | 'lease' | 'limit'> {
  /** The only ones whose messages are claimed: what a process cannot handle is left to others. */
  readonly handlers: readonly HandlerRoom[];
  /** Whether a dead message stops its key: then nothing of such a key is claimed. Default false. */
  readonly haltOnDead?: boolean;
}

/**
 * What the outbox asks of a database about rows with the transport `local`. They are written, renewed and settled as all
 * others, and never claimed by what claims messages for a broker. Ordering keys are per handler.
 */
export interface LocalOutboxStatements {
  /** Whether a claim for these handlers could find anything: one cheap statement, no lock. */
  anyLocalDue(runner: QueryRunner, handlers: readonly string[]): Promise<boolean>;

  /**
   * Inside a READ COMMITTED transaction of the caller's. Sorted by sequence; of each ordering key one message at most. Rows
   * that are locked, by the transaction of a handler for example, count as claimed whatever their lease says.
   */
  claimLocal(runner: QueryRunner, request: LocalClaimRequest): Promise<ClaimedMessage[]>;

  /**
   * Names of handlers, at most 100, whose messages have been waiting to be claimed.
   *
   * @param known names that are left out
   * @param since milliseconds that a message has been waiting at least
   */
  neglectedHandlers(runner: QueryRunner, known: readonly string[], since: number): Promise<string[]>;
}
