import { Inject, Logger, Module, type DynamicModule, type OnApplicationShutdown } from '@nestjs/common';
import {
  DEFAULT_DATA_SOURCE,
  getLocalHandlersToken,
  getOutboxToken,
  getTransactionsToken,
} from '../injection-tokens';
import type { OutboxService } from '../outbox/outbox.service';
import type { Transactions } from '../transaction/transactions';
import type { LocalHandlers } from '../transport/local/local-handlers';
import { createMailHandler } from './mail-handler';
import { MailTransport } from './mail-transport';
import {
  ConfigurableModuleClass,
  MODULE_OPTIONS_TOKEN,
  type ASYNC_OPTIONS_TYPE,
  type OPTIONS_TYPE,
} from './mailer-outbox.module-definition';
import {
  resolveMailerOptions,
  type MailerOutboxModuleExtras,
  type MailerOutboxModuleOptions,
  type ResolvedMailerOptions,
} from './mailer-outbox.options';
import { MailerOutboxService } from './mailer-outbox.service';
import { getMailerOutboxToken } from './mailer-outbox.tokens';

const RESOLVED_OPTIONS = Symbol('MailerOutboxOptions');
const TRANSPORT = Symbol('MailerOutboxTransport');
const HANDLER = Symbol('MailerOutboxHandler');

/**
 * E-mails through the outbox. Import `MailerOutboxModule.forRoot({ transport })` beside `InboxOutboxModule.forRoot()`, once
 * per data source; it is global. Processes that only write mails need it too, and a transport.
 */
@Module({})
export class MailerOutboxModule extends ConfigurableModuleClass implements OnApplicationShutdown {
  constructor(@Inject(TRANSPORT) private readonly transport: MailTransport) {
    super();
  }

  /** @throws {InvalidOptionError} naming the option and its value */
  static override forRoot(options: typeof OPTIONS_TYPE): DynamicModule {
    return complete(super.forRoot(options), options);
  }

  /** `dataSource` stands beside the factory: injection tokens depend on it. */
  static override forRootAsync(options: typeof ASYNC_OPTIONS_TYPE): DynamicModule {
    return complete(super.forRootAsync(options), options);
  }

  /** By now the mails that were under way have ended or were handed back. */
  onApplicationShutdown(): void {
    this.transport.close();
  }
}

function complete(module: DynamicModule, extras: MailerOutboxModuleExtras): DynamicModule {
  const { dataSource = DEFAULT_DATA_SOURCE } = extras;
  const service = getMailerOutboxToken(dataSource);
  const outbox = getOutboxToken(dataSource);
  const logger = new Logger('MailerOutbox');
  return {
    ...module,
    global: true,
    providers: [
      ...(module.providers ?? []),
      {
        provide: RESOLVED_OPTIONS,
        inject: [MODULE_OPTIONS_TOKEN],
        useFactory: (options: MailerOutboxModuleOptions) => resolveMailerOptions(options),
      },
      {
        provide: TRANSPORT,
        inject: [RESOLVED_OPTIONS],
        useFactory: ({ transport, concurrency, sendTimeout }: ResolvedMailerOptions) =>
          new MailTransport({ config: transport, concurrency, sendTimeout, logger }),
      },
      {
        provide: service,
        inject: [outbox, RESOLVED_OPTIONS],
        useFactory: (outboxService: OutboxService, options: ResolvedMailerOptions) =>
          new MailerOutboxService(outboxService, options),
      },
      {
        provide: HANDLER,
        inject: [
          RESOLVED_OPTIONS,
          TRANSPORT,
          outbox,
          getTransactionsToken(dataSource),
          getLocalHandlersToken(dataSource),
        ],
        useFactory: (
          options: ResolvedMailerOptions,
          transport: MailTransport,
          outboxService: OutboxService,
          transactions: Transactions,
          handlers: LocalHandlers,
        ) =>
          handlers.add(
            createMailHandler({ options, transport, outbox: outboxService, transactions, logger }),
          ),
      },
    ],
    exports: [service],
  };
}
