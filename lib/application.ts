import { AmqpConnection, AmqpConnectionManager } from '@golevelup/nestjs-rabbitmq';
import { Logger, type InjectionToken } from '@nestjs/common';
import { DiscoveryService, ExternalContextCreator, ModuleRef, type ModulesContainer } from '@nestjs/core';
import { SchedulerRegistry } from '@nestjs/schedule';
import { HandlerRegistry } from './inbox/handler-registry';
import { Inboxes } from './inbox/inboxes';
import { DEFAULT_DATA_SOURCE } from './injection-tokens';
import type { LockService } from './locking/lock.service';
import { exploreSchedulerLocks } from './locking/scheduler-lock.explorer';
import { InvalidOptionError } from './message/invalid-option.error';
import { connectTransactionHosts } from './transaction/libraries/transaction-hosts';
import { Registration, type RegistrationSettings } from './registration';
import { shutDown } from './shutdown';
import { unknownDataSource } from './transport/local/local-handlers';
import { discoverLocalHandlers } from './transport/local/local-handler-discovery';

/** What the module needs from Nest. */
export interface ApplicationParts {
  readonly modules: ModulesContainer;
  readonly moduleRef: ModuleRef;
  readonly discovery: DiscoveryService;
  /** The app's own, where it imports `ScheduleModule`. */
  readonly scheduler: SchedulerRegistry | undefined;
}

const applications = new WeakMap<ModulesContainer, Application>();

/**
 * All registrations of the module in one Nest application, and what there is only one of: the handlers and their
 * interceptor. The module's hooks call it once for each registration; the first call counts.
 */
export class Application {
  readonly inboxes = new Inboxes();
  readonly handlers: HandlerRegistry;
  private readonly registrations = new Map<string, Registration>();
  private readonly scheduler: SchedulerRegistry;
  private readonly logger = new Logger('InboxOutboxModule');
  private shutdownTimeout = 0;
  private intercepts = false;
  private initialised: Promise<void> | undefined;
  private stopped: Promise<void> | undefined;
  private started = false;
  private disconnectHosts: (() => void) | undefined;

  private constructor(private readonly parts: ApplicationParts) {
    this.scheduler = parts.scheduler ?? new SchedulerRegistry();
    this.handlers = new HandlerRegistry(parts.discovery, parts.moduleRef, this.inboxes);
  }

  static of(parts: ApplicationParts): Application {
    const known = applications.get(parts.modules);
    if (known) return known;
    const application = new Application(parts);
    applications.set(parts.modules, application);
    return application;
  }

  /**
   * Importing the module twice for one data source is one registration.
   *
   * @throws {InvalidOptionError} when the two ask for different things
   */
  register(settings: Omit<RegistrationSettings, 'scheduler' | 'inboxes' | 'connection'>): Registration {
    try {
      return this.registrationFor(settings);
    } catch (error) {
      // An application that does not start gets no shutdown hooks.
      this.dispose();
      throw error;
    }
  }

  /** True for the first who asks: with two global interceptors each delivery would be taken twice. */
  claimInterceptor(): boolean {
    if (this.intercepts) return false;
    this.intercepts = true;
    return true;
  }

  /** Before golevelup subscribes its handlers, which it does in `onApplicationBootstrap`. */
  initialise(): Promise<void> {
    this.initialised ??= this.verify();
    return this.initialised;
  }

  start(): void {
    if (this.started || this.stopped) return;
    this.started = true;
    for (const registration of this.registrations.values()) registration.start();
  }

  /** While the database and the broker are still open. */
  stop(): Promise<void> {
    this.stopped ??= shutDown(
      {
        stopDispatching: (timeout) =>
          Promise.all([...this.registrations.values()].map((each) => each.stop(timeout))),
        connections: () => this.connections(),
        drainHandlers: (timeout) => this.drain(timeout),
        onError: (step, error) => this.logger.error(`Shutdown: ${step} failed: ${String(error)}`),
      },
      this.shutdownTimeout,
    ).then(() => this.endSignals());
    return this.stopped;
  }

  dispose(): void {
    this.disconnectHosts?.();
    this.handlers.dispose();
    for (const registration of this.registrations.values()) registration.dispose();
    applications.delete(this.parts.modules);
  }

  private registrationFor(
    settings: Omit<RegistrationSettings, 'scheduler' | 'inboxes' | 'connection'>,
  ): Registration {
    const { dataSourceName, options } = settings;
    const known = this.registrations.get(dataSourceName);
    if (known) {
      if (known.isSameAs(settings)) return known;
      throw new InvalidOptionError(
        'dataSource',
        dataSourceName,
        'one registration for each data source: InboxOutboxModule is imported twice for it, with different options',
      );
    }
    const registration = new Registration({
      ...settings,
      scheduler: this.scheduler,
      inboxes: this.inboxes,
      connection: () => this.connection(options.connection),
    });
    this.registrations.set(dataSourceName, registration);
    this.shutdownTimeout = Math.max(this.shutdownTimeout, options.shutdownTimeout);
    return registration;
  }

  private async endSignals(): Promise<void> {
    await Promise.all([...this.registrations.values()].map((each) => each.endSignals()));
  }

  private async verify(): Promise<void> {
    try {
      this.disconnectHosts = connectTransactionHosts(this.parts.discovery);
      this.findLocalHandlers();
      for (const registration of this.registrations.values()) await registration.verify();
      exploreSchedulerLocks(this.parts.discovery, (name) => this.locks(name), [...this.registrations.keys()]);
      this.handlers.onModuleInit();
    } catch (error) {
      this.dispose();
      throw error;
    }
  }

  private locks(dataSource: string | undefined): LockService | undefined {
    return this.registrationOf(dataSource)?.locks;
  }

  private registrationOf(dataSource: string | undefined): Registration | undefined {
    if (dataSource !== undefined) return this.registrations.get(dataSource);
    const [only, ...more] = this.registrations.values();
    return this.registrations.get(DEFAULT_DATA_SOURCE) ?? (more.length === 0 ? only : undefined);
  }

  /** @throws {OutboxHandlerError} */
  private findLocalHandlers(): void {
    const creator = this.lookUp<ExternalContextCreator>(ExternalContextCreator);
    if (!creator) return;
    for (const handler of discoverLocalHandlers(this.parts.discovery, creator)) {
      const registration = this.registrationOf(handler.options.dataSource);
      if (!registration) throw unknownDataSource(handler, [...this.registrations.keys()]);
      registration.localHandlers.add(handler);
    }
  }

  private async drain(timeout: number): Promise<void> {
    const cut = await this.inboxes.drain(timeout);
    if (cut > 0)
      this.logger.warn(`Shutdown: ${cut} handlers had not finished, their messages go back to the broker`);
  }

  private connection(name: string | undefined): AmqpConnection | undefined {
    if (name === undefined) return this.lookUp<AmqpConnection>(AmqpConnection);
    return this.lookUp<AmqpConnectionManager>(AmqpConnectionManager)?.getConnection(name);
  }

  private connections(): AmqpConnection[] {
    return this.lookUp<AmqpConnectionManager>(AmqpConnectionManager)?.getConnections() ?? [];
  }

  private lookUp<T>(token: InjectionToken<T>): T | undefined {
    try {
      return this.parts.moduleRef.get<T>(token, { strict: false });
    } catch {
      return undefined;
    }
  }
}
