import {
  Inject,
  Module,
  type BeforeApplicationShutdown,
  type DynamicModule,
  type OnApplicationBootstrap,
  type OnApplicationShutdown,
  type OnModuleInit,
  type Provider,
} from '@nestjs/common';
import {
  APP_INTERCEPTOR,
  DiscoveryModule,
  DiscoveryService,
  ModuleRef,
  ModulesContainer,
} from '@nestjs/core';
import { SchedulerRegistry } from '@nestjs/schedule';
import { getDataSourceToken, TypeOrmModule } from '@nestjs/typeorm';
import type { DataSource } from 'typeorm';
import { Application } from './application';
import { createInterceptor } from './inbox/idempotent.interceptor';
import {
  ConfigurableModuleClass,
  MODULE_OPTIONS_TOKEN,
  type ASYNC_OPTIONS_TYPE,
  type OPTIONS_TYPE,
} from './inbox-outbox.module-definition';
import { type InboxOutboxModuleExtras, type InboxOutboxModuleOptions } from './inbox-outbox.options';
import { resolveOptions } from './resolved-options';
import {
  DEFAULT_DATA_SOURCE,
  getInboxToken,
  getDeadLetterServiceToken,
  getLocalHandlersToken,
  getLockServiceToken,
  getOutboxDispatcherToken,
  getOutboxToken,
  getTransactionsToken,
} from './injection-tokens';
import { inboxOutboxTables } from './persistence/registered-tables';
import { Registration } from './registration';

const APPLICATION = Symbol('InboxOutboxApplication');
const REGISTRATION = Symbol('InboxOutboxRegistration');

/**
 * Reliable messaging between RabbitMQ and a TypeORM data source. Import `InboxOutboxModule.forRoot()` once in the app
 * module, or once per data source; it is global.
 */
@Module({})
export class InboxOutboxModule
  extends ConfigurableModuleClass
  implements OnModuleInit, OnApplicationBootstrap, BeforeApplicationShutdown, OnApplicationShutdown
{
  constructor(@Inject(APPLICATION) private readonly application: Application) {
    super();
  }

  static override forRoot(options: typeof OPTIONS_TYPE = {}): DynamicModule {
    return complete(super.forRoot(options), options);
  }

  /** `dataSource` and the table options stand beside the factory: entities and injection tokens depend on them. */
  static override forRootAsync(options: typeof ASYNC_OPTIONS_TYPE): DynamicModule {
    return complete(super.forRootAsync(options), options);
  }

  onModuleInit(): Promise<void> {
    return this.application.initialise();
  }

  onApplicationBootstrap(): void {
    this.application.start();
  }

  beforeApplicationShutdown(): Promise<void> {
    return this.application.stop();
  }

  onApplicationShutdown(): void {
    this.application.dispose();
  }
}

function complete(module: DynamicModule, extras: InboxOutboxModuleExtras): DynamicModule {
  const { dataSource = DEFAULT_DATA_SOURCE } = extras;
  const tables = inboxOutboxTables(extras);
  // Called for its one effect: autoLoadEntities finds the tables. Its repositories are not provided, since they would fail
  // with an error of TypeORM's where the data source does not load entities by itself; verifyEntities() says what to do.
  TypeOrmModule.forFeature(Object.values(tables), dataSource);
  const services: Provider[] = [
    provideFromRegistration(getTransactionsToken(dataSource), (registration) => registration.transactions),
    provideFromRegistration(getOutboxToken(dataSource), (registration) => registration.outbox),
    provideFromRegistration(getInboxToken(dataSource), (registration) => registration.inbox),
    provideFromRegistration(getOutboxDispatcherToken(dataSource), (registration) => registration.dispatcher),
    provideFromRegistration(getLockServiceToken(dataSource), (registration) => registration.locks),
    provideFromRegistration(
      getDeadLetterServiceToken(dataSource),
      (registration) => registration.deadLetters,
    ),
    provideFromRegistration(getLocalHandlersToken(dataSource), (registration) => registration.localHandlers),
  ];
  return {
    ...module,
    global: true,
    imports: [...(module.imports ?? []), DiscoveryModule],
    providers: [
      ...(module.providers ?? []),
      {
        provide: APPLICATION,
        inject: [ModulesContainer, ModuleRef, DiscoveryService, { token: SchedulerRegistry, optional: true }],
        useFactory: (
          modules: ModulesContainer,
          moduleRef: ModuleRef,
          discovery: DiscoveryService,
          scheduler?: SchedulerRegistry,
        ) => Application.of({ modules, moduleRef, discovery, scheduler }),
      },
      {
        provide: REGISTRATION,
        inject: [APPLICATION, getDataSourceToken(dataSource), MODULE_OPTIONS_TOKEN],
        useFactory: (application: Application, source: DataSource, options: InboxOutboxModuleOptions) =>
          application.register({
            dataSourceName: dataSource,
            dataSource: source,
            tables,
            options: resolveOptions(options),
          }),
      },
      {
        provide: APP_INTERCEPTOR,
        // The registration first, so that the inbox is open.
        inject: [APPLICATION, REGISTRATION],
        useFactory: (application: Application) => createInterceptor(application),
      },
      ...services,
    ],
    exports: services.map((service) => (service as { provide: string }).provide),
  };
}

function provideFromRegistration<T>(
  provide: string | symbol | object,
  pick: (registration: Registration) => T,
): Provider {
  return { provide: provide as string, inject: [REGISTRATION], useFactory: pick };
}
