import type { ClaimedInboxMessage, InboxKey, KeptMessage } from '../persistence/inbox-message';
import type { StoredMessage } from '../persistence/kept-inbox-statements';
import type { KeptStore } from './kept-store';

/** Tells messages apart in this process. */
export const identityOf = ({ consumer, messageId }: InboxKey): string =>
  JSON.stringify([consumer, messageId]);

/** Of what was stored: the rows of the messages that were to be claimed by that. */
export function claimedOf(
  stored: readonly StoredMessage[],
  chosen: ReadonlySet<KeptMessage>,
): ClaimedInboxMessage[] {
  const byIdentity = new Map([...chosen].map((message) => [identityOf(message), message]));
  return stored.flatMap((row) => {
    const message = byIdentity.get(identityOf(row));
    return message ? { ...message, ...row, attempts: Number(row.attempts), suspect: false } : [];
  });
}

/**
 * Stores as claimed whose answer was lost: the messages may be there, and nobody would run them until their lease is over, which
 * would then count as a lost run. Whoever stores them again finds them here first.
 */
export class UnansweredStores {
  /** By message. */
  private readonly tokens = new Map<string, string>();

  constructor(private readonly store: Pick<KeptStore, 'release'>) {}

  note(token: string, messages: Iterable<KeptMessage>): void {
    for (const message of messages) this.tokens.set(identityOf(message), token);
  }

  /** Opens again what is there. @returns those messages */
  async find(messages: readonly KeptMessage[]): Promise<InboxKey[]> {
    if (this.tokens.size === 0) return [];
    const found: InboxKey[] = [];
    for (const message of messages) {
      const token = this.tokens.get(identityOf(message));
      if (token === undefined) continue;
      if (await this.store.release(message, token, false)) found.push(message);
      this.tokens.delete(identityOf(message));
    }
    return found;
  }
}
