import type { LoggerService } from '@nestjs/common';
import { encodeRetry } from '../message/message-retry';
import type { OutboxService } from '../outbox/outbox.service';
import type { Transactions } from '../transaction/transactions';
import type { LocalHandler } from '../transport/local/local-handler';
import { MailSender } from './mail-sender';
import type { MailTransport } from './mail-transport';
import { MAILER_HANDLER } from './mailer-outbox.service';
import type { ResolvedMailerOptions } from './mailer-outbox.options';
import { RateLimiter } from './rate-limiter';

export interface MailHandlerParts {
  readonly options: ResolvedMailerOptions;
  readonly transport: MailTransport;
  readonly outbox: OutboxService;
  readonly transactions: Transactions;
  readonly logger: LoggerService;
}

/**
 * The local handler that sends the mails of a data source's outbox. No decorated method: the application's global guards and
 * interceptors are about its own handlers. Its time limit is that of sending, so that waiting for a turn does not count.
 */
export function createMailHandler(parts: MailHandlerParts): LocalHandler {
  const { options, transport, outbox, transactions, logger } = parts;
  const { maxAttempts, backoff, concurrency, rateLimit, onRefused } = options;
  const sender = new MailSender({
    transport,
    limiter: new RateLimiter(rateLimit),
    enqueue: (mail, deduplicationKey, temporary) =>
      transactions.run(() =>
        outbox.enqueue(MAILER_HANDLER, mail, {
          deduplicationKey,
          ...(temporary && { delay: backoff.initialDelay }),
        }),
      ),
    onRefused,
    logger,
  });
  return {
    name: MAILER_HANDLER,
    owner: 'MailerOutboxModule',
    options: {
      transactional: false,
      concurrency,
      timeout: undefined,
      retry: encodeRetry({ maxAttempts, backoff }),
      isolationLevel: undefined,
      dataSource: undefined,
    },
    handle: (payload, context) => sender.send(payload, context),
  };
}
