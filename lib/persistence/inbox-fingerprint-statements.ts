import type { QueryRunner } from 'typeorm';
import type { InboxKey } from './inbox-message';

/** Hashes of what messages contain. */
export interface InboxFingerprintStatements {
  /**
   * Writes the hash into the row that this transaction has taken.
   *
   * @returns the id of another message for the same consumer with the same hash, if there is one
   */
  noteFingerprint(runner: QueryRunner, key: InboxKey, hash: string): Promise<string | undefined>;
}
