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

interface Unanswered {
  readonly key: InboxKey;
  /** Of all stores without an answer: any of them may have taken place, or may do so yet. */
  readonly tokens: Set<string>;
  isOpened: boolean;
}

/**
 * Stores as claimed whose answer was lost: the messages may be there, and nobody would run them until their lease is over, which
 * would then count as a lost run. So they are opened again: before they are stored again, by the processor's polls, and when it
 * stops.
 */
export class UnansweredStores {
  private readonly unanswered = new Map<string, Unanswered>();

  constructor(private readonly store: Pick<KeptStore, 'release'>) {}

  note(token: string, messages: Iterable<KeptMessage>): void {
    for (const { consumer, messageId } of messages) {
      const key = { consumer, messageId };
      const entry = this.unanswered.get(identityOf(key)) ?? { key, tokens: new Set(), isOpened: false };
      entry.tokens.add(token);
      this.unanswered.set(identityOf(key), entry);
    }
  }

  /** @param messages default: all. @throws whatever the database says */
  async open(messages?: readonly InboxKey[]): Promise<void> {
    for (const entry of this.entriesOf(messages)) await this.tryToOpen(entry);
  }

  /**
   * To be called when the messages were stored again, with an answer. Never rejects.
   *
   * @param stored what that has stored
   * @returns those that an unanswered store had stored before
   */
  async conclude(messages: readonly InboxKey[], stored: readonly InboxKey[]): Promise<InboxKey[]> {
    if (this.unanswered.size === 0) return [];
    const fresh = new Set(stored.map(identityOf));
    const found: InboxKey[] = [];
    for (const entry of this.entriesOf(messages)) {
      try {
        // Its COMMIT may have been under way when it was looked for before.
        if (!fresh.has(identityOf(entry.key))) await this.tryToOpen(entry);
        if (entry.isOpened) found.push(entry.key);
        this.unanswered.delete(identityOf(entry.key));
      } catch {
        // Left for the next poll.
      }
    }
    return found;
  }

  private async tryToOpen(entry: Unanswered): Promise<void> {
    for (const token of entry.tokens) {
      if (entry.isOpened) return;
      entry.isOpened = await this.store.release(entry.key, token, false);
    }
  }

  private entriesOf(messages?: readonly InboxKey[]): Unanswered[] {
    if (this.unanswered.size === 0) return [];
    if (!messages) return [...this.unanswered.values()];
    return messages.flatMap((message) => this.unanswered.get(identityOf(message)) ?? []);
  }
}
