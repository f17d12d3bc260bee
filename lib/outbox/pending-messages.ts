import type { PendingMessageStatements } from '../persistence/pending-message-statements';
import type { QueryRunner } from 'typeorm';
import { InvalidArgumentError } from '../message/invalid-argument.error';
import { STORABLE_DATES, storableDate } from '../message/storable-date';
import { JoinedWork, type JoinedWorkParts } from '../transaction/joined-work';
import type { ExplicitTransaction } from '../transaction/transactions';

export interface PendingMessagesParts extends JoinedWorkParts {
  readonly statements: PendingMessageStatements;
  /** Called after the commit of a change, to wake the dispatcher. */
  readonly notify: () => void;
}

/** Milliseconds. A claim that holds the row is over in a moment; a transaction of the application may take longer. */
const LIMITS = { statementTimeout: 30_000, lockTimeout: 30_000 };

/** What can still be done about a message that is in the outbox. See `OutboxService`. */
export class PendingMessages {
  private readonly work: JoinedWork;

  constructor(private readonly parts: PendingMessagesParts) {
    this.work = new JoinedWork(parts, LIMITS);
  }

  async cancel(messageId: string, transaction: ExplicitTransaction = {}): Promise<boolean> {
    checkId('cancel(messageId)', messageId);
    // What was behind it in its key may be due now.
    return this.change(transaction, (runner) => this.parts.statements.cancel(runner, messageId));
  }

  async reschedule(messageId: string, at: Date, transaction: ExplicitTransaction = {}): Promise<boolean> {
    checkId('reschedule(messageId)', messageId);
    const date = storableDate(at);
    if (!date) throw new InvalidArgumentError('reschedule(messageId, at)', at, STORABLE_DATES);
    return this.change(transaction, (runner) => this.parts.statements.reschedule(runner, messageId, date));
  }

  private change(
    transaction: ExplicitTransaction,
    work: (runner: QueryRunner) => Promise<boolean>,
  ): Promise<boolean> {
    return this.work.run(transaction, work, (changed) => {
      if (changed) this.parts.notify();
    });
  }
}

function checkId(argument: string, messageId: unknown): void {
  if (typeof messageId !== 'string' || messageId === '' || messageId.includes('\0')) {
    throw new InvalidArgumentError(argument, messageId, 'the id that publish() returned');
  }
}
