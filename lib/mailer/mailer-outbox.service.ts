import { Injectable } from '@nestjs/common';
import type { OutboxService } from '../outbox/outbox.service';
import type { EnqueueOptions, PublishManyOptions } from '../outbox/publish-options';
import type { Mail } from './mail';
import { storeMail, type StoringOptions } from './stored-mail';

/** Name of the local handler that sends mails, as rows of the outbox have it. */
export const MAILER_HANDLER = 'mailer';

/** Options of `MailerOutboxService.send()`; what they mean is told at `PublishOptions`. */
export type SendMailOptions = Pick<
  EnqueueOptions,
  | 'messageId'
  | 'orderingKey'
  | 'deliverAt'
  | 'delay'
  | 'expiresAt'
  | 'deduplicationKey'
  | 'retry'
  | 'headers'
  | 'manager'
>;

/** One mail of `MailerOutboxService.sendMany()`. */
export interface OutboxMail {
  mail: Mail;
  options?: Omit<SendMailOptions, 'manager'>;
}

/**
 * Writes mails into the outbox, in the caller's transaction: a mail is sent if and only if that transaction commits. It is
 * sent at least once, with the same `Message-ID` and the same header `X-Outbox-Message-Id` each time.
 */
@Injectable()
export class MailerOutboxService {
  constructor(
    private readonly outbox: Pick<OutboxService, 'enqueue' | 'enqueueMany'>,
    private readonly storing: StoringOptions,
  ) {}

  /**
   * @param mail as nodemailer's `sendMail()` takes it; stored now, so that changing it later has no effect
   * @returns the id of the outbox message, for `OutboxService.cancel()` and the dead letters
   * @throws {InvalidMessageError} for a mail that cannot be sent or stored; before any SQL, so the transaction stays usable
   * @throws as `OutboxService.enqueue()`, e.g. {TransactionRequiredError} outside of a transaction
   */
  async send(mail: Mail, options: SendMailOptions = {}): Promise<string> {
    return this.outbox.enqueue(MAILER_HANDLER, storeMail(mail, this.storing), options);
  }

  /**
   * Writes mails in the order given, in one statement: a newsletter.
   *
   * @returns the message ids in the order given; empty for no mails
   * @throws as {@link send}; nothing is written when one of the mails is not in order
   */
  async sendMany(mails: readonly OutboxMail[], options: PublishManyOptions = {}): Promise<string[]> {
    const messages = mails.map(({ mail, options: own }) => ({
      handler: MAILER_HANDLER,
      payload: storeMail(mail, this.storing),
      options: own,
    }));
    return this.outbox.enqueueMany(messages, options);
  }
}
