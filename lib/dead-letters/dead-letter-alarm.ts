import type { LoggerService } from '@nestjs/common';
import { within } from '../timing/within';
import { runOutsideScopes } from '../transaction/transaction-context';

/** A message that has just become dead. */
export interface DeadMessage {
  /** `outbox`: it could not be sent; `inbox`: it could not be handled. */
  readonly box: 'outbox' | 'inbox';
  /** Name of the data source whose table has it. */
  readonly dataSource: string;
  readonly messageId: string;
  /** Of the inbox only: the handler's identity. */
  readonly consumer?: string;
  readonly exchange: string;
  readonly routingKey: string;
  /** How often it was tried. */
  readonly attempts: number;
  /** As it stands in the table. */
  readonly error: string;
  /** What was thrown, where something was. */
  readonly cause?: unknown;
}

/** The module's option `onDead`. */
export type OnDead = (message: DeadMessage) => void | Promise<void>;

export interface DeadLetterAlarmSettings {
  /** Name of the data source. */
  readonly dataSource: string;
  readonly onDead: OnDead | undefined;
  readonly logger: Pick<LoggerService, 'error'>;
}

/**
 * Tells the application of messages that have become dead: whoever makes one dead calls `raise()` after the commit that
 * did it. The table is the truth and the alarm is best effort: a process that dies right after the commit raises none.
 *
 * The application's function is called outside of any transaction, nobody waits for it, and what it throws or rejects with
 * is logged.
 */
export class DeadLetterAlarm {
  private readonly running = new Set<Promise<void>>();

  constructor(private readonly settings: DeadLetterAlarmSettings) {}

  /** Never throws. */
  raise(message: Omit<DeadMessage, 'dataSource'>): void {
    const { dataSource, onDead } = this.settings;
    if (!onDead) return;
    const call = runOutsideScopes(async () => onDead({ ...message, dataSource }))
      .catch((error: unknown) => this.complain(message, error))
      .finally(() => this.running.delete(call));
    this.running.add(call);
  }

  /** Waits for alarms that are under way. Never rejects. */
  async drain(timeout: number): Promise<void> {
    await within(timeout, Promise.all(this.running));
  }

  private complain({ box, messageId }: Omit<DeadMessage, 'dataSource'>, error: unknown): void {
    try {
      this.settings.logger.error(
        `onDead failed for message ${messageId} of the ${box}: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`,
      );
    } catch {
      // An application's logger may throw, or what was thrown has no text; nowhere is left to tell it.
    }
  }
}
