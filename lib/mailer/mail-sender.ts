import type { LoggerService } from '@nestjs/common';
import type { SentMessageInfo } from 'nodemailer';
import { persistUntil } from '../claiming/persist-until';
import { NonRetryableError } from '../message/non-retryable.error';
import { isDeferral } from './mail-failure';
import { messageIdHeader, OUTBOX_ID_HEADER } from './mail-headers';
import type { MailTransport } from './mail-transport';
import type { MailerOutboxModuleOptions, RefusedRecipient, RefusedRecipients } from './mailer-outbox.options';
import type { RateLimiter } from './rate-limiter';
import { senderOf, type StoredMail } from './stored-mail';

/** What the outbox knows about the mail that is to be sent. */
export interface SendingContext {
  readonly messageId: string;
  /** Aborted at a shutdown, and when the claim is lost. */
  readonly signal: AbortSignal;
}

export interface MailSenderDependencies {
  readonly transport: Pick<MailTransport, 'send'>;
  readonly limiter: RateLimiter;
  /**
   * Writes a mail into the outbox, in a transaction of its own.
   *
   * @param deduplicationKey with which a second call writes nothing
   * @param temporary whether it had better wait a little
   * @returns its message id
   */
  readonly enqueue: (mail: StoredMail, deduplicationKey: string, temporary: boolean) => Promise<string>;
  readonly onRefused: MailerOutboxModuleOptions['onRefused'];
  readonly logger: LoggerService;
}

/**
 * Sends a stored mail.
 *
 * 1. Wait for its turn, where there is a rate limit.
 * 2. Give it its `Message-ID` and the outbox's own header: the same ones in every attempt.
 * 3. Send it. No transaction is open meanwhile.
 * 4. Where some recipients were refused and others accepted, the mail is sent, and never goes to the accepted ones again. The
 *    refused ones become a message of their own, with the same `Message-ID`: it is tried again, or is dead with the server's
 *    reply and can be replayed, as any other. Its deduplication key keeps it single if this attempt must be repeated.
 */
export class MailSender {
  constructor(private readonly use: MailSenderDependencies) {}

  /**
   * @throws {NonRetryableError} when it will not be taken in any attempt
   * @throws {HandlerUnavailableError} when no mail can be sent at the moment
   * @throws the transport's error when this mail may be taken later
   */
  async send(payload: unknown, { messageId, signal }: SendingContext): Promise<void> {
    const { limiter, transport } = this.use;
    const stored = readStored(payload);
    await limiter.turn(signal);
    const mail = {
      ...stored,
      messageId: stored.messageId ?? messageIdHeader(messageId, senderOf(stored)),
      headers: withHeader(stored.headers, OUTBOX_ID_HEADER, messageId),
    };
    const info = await transport.send(mail, signal);
    const recipients = refusedRecipients(info);
    if (recipients.length > 0) {
      await this.splitOff({ ...stored, messageId: mail.messageId }, messageId, recipients, signal);
    }
  }

  private async splitOff(
    mail: StoredMail,
    messageId: string,
    recipients: readonly RefusedRecipient[],
    signal: AbortSignal,
  ): Promise<void> {
    const { enqueue, logger, onRefused } = this.use;
    const envelope = { from: envelopeSender(mail), to: recipients.map(({ address }) => address) };
    const temporary = recipients.some((recipient) => recipient.temporary);
    const list = recipients.map(({ address, response }) => `${address} (${response})`).join(', ');
    const what = `Mail ${messageId} was sent, but not to ${list}`;
    let followUpId = '';
    let failed = false;
    const kept = await persistUntil(
      async () => {
        followUpId = await enqueue({ ...mail, envelope }, `mailer-refused:${messageId}`, temporary);
      },
      {
        goOn: () => !signal.aborted,
        onFailure: (error) => {
          if (!failed) logger.error(`${what}; that could not be written yet: ${String(error)}`);
          failed = true;
        },
      },
    );
    // As after a crash: rather sent again than forgotten.
    if (!kept) throw signal.reason;
    logger.warn(`${what}; these are message ${followUpId} now`);
    const subject = typeof mail.subject === 'string' ? mail.subject : undefined;
    await this.tell(onRefused, { messageId, followUpId, subject, recipients });
  }

  private async tell(
    onRefused: MailerOutboxModuleOptions['onRefused'],
    refusal: RefusedRecipients,
  ): Promise<void> {
    try {
      await onRefused?.(refusal);
    } catch (error) {
      this.use.logger.error(`onRefused failed for mail ${refusal.messageId}: ${String(error)}`);
    }
  }
}

/** The row may have been changed by hand. */
function readStored(payload: unknown): StoredMail {
  if (typeof payload !== 'object' || payload === null || Array.isArray(payload)) {
    throw new NonRetryableError('The stored mail is damaged: it is no object');
  }
  try {
    senderOf(payload as StoredMail);
  } catch (cause) {
    throw new NonRetryableError(`The stored mail is damaged: ${(cause as Error).message}`, { cause });
  }
  return payload as StoredMail;
}

function withHeader(headers: unknown, name: string, value: string): unknown {
  if (Array.isArray(headers)) return [...(headers as unknown[]), { key: name, value }];
  return { ...(headers as object | undefined), [name]: value };
}

function envelopeSender(mail: StoredMail): string {
  const { from } = (mail.envelope ?? {}) as { from?: unknown };
  return senderOf({ from: from ?? mail.from });
}

function refusedRecipients({ rejected = [], rejectedErrors }: SentMessageInfo): RefusedRecipient[] {
  const errors = Array.isArray(rejectedErrors)
    ? (rejectedErrors as { recipient?: unknown; response?: unknown }[])
    : [];
  return rejected.map((rejection: string | { address: string }) => {
    const address = typeof rejection === 'string' ? rejection : rejection.address;
    const error = errors.find(({ recipient }) => recipient === address);
    const response = typeof error?.response === 'string' ? error.response : 'refused';
    return { address, response, temporary: isDeferral(error) };
  });
}
