import { AmqpConnection, AmqpConnectionManager } from '@golevelup/nestjs-rabbitmq';
import { Injectable, Logger, type OnModuleInit } from '@nestjs/common';
import { DiscoveryService, ExternalContextCreator, ModuleRef } from '@nestjs/core';
import { InvalidOptionError } from '../message/invalid-option.error';
import { wrapBatchMethod } from './batch-arguments';
import { bodyDecoder } from './body-decoder';
import { protectErrorPath } from './error-path';
import { refusal, subscriptionsOf, type Subscription } from './handler-checks';
import { discoverHandlers, type DiscoveredHandler } from './handler-discovery';
import { handlerPipeline } from './handler-pipeline';
import { consumerName } from './idempotent.options';
import type { Inbox } from './inbox';
import { Inboxes } from './inboxes';
import { kindOf, refuseContradictions } from './option-contradictions';
import { liftProtectionCheck } from './protection-check.interceptor';
import { ReplyCodec } from './reply-codec';
import type { RegisteredHandler } from './registered-handler';
import { guardDeserializer } from './undecodable-bodies';
import { warnOfLostRejections } from './rejection-warning';

/**
 * Knows all `@Idempotent()` handlers. At start, before golevelup subscribes them (which it does in
 * `onApplicationBootstrap`):
 *
 * 1. Finds them, and refuses to start where one could not be protected.
 * 2. Makes golevelup's way of handling errors safe for them (see error-path.ts).
 * 3. Has it tell of bodies that cannot be decoded instead of requeueing them (see undecodable-bodies.ts).
 * 4. Warns where the broker would drop what is rejected.
 */
@Injectable()
export class HandlerRegistry implements OnModuleInit {
  private readonly logger = new Logger('Inbox');
  private readonly handlers = new Map<object, Map<string, RegisteredHandler>>();
  private readonly undo: (() => void)[] = [];

  constructor(
    private readonly discovery: DiscoveryService,
    private readonly moduleRef: ModuleRef,
    private readonly inboxes: Inboxes,
  ) {}

  /** @throws {IdempotentHandlerError} naming class and method, and the remedy */
  onModuleInit(): void {
    const connections = this.connections();
    const found = discoverHandlers(this.discovery);
    if (found.length > 0 && connections.length === 0) {
      this.logger.warn('There is no RabbitMQ connection, so no @Idempotent() handler will be called.');
    }
    const subscribed: { handler: DiscoveredHandler; subscriptions: Subscription[] }[] = [];
    for (const handler of found) {
      if (isControllerTwin(handler, found, connections)) continue;
      subscribed.push({ handler, subscriptions: subscriptionsOf(handler, connections) });
    }
    const owners = new Map<string, DiscoveredHandler>();
    for (const each of subscribed) this.register(each.handler, each.subscriptions, owners);
    for (const { handler, subscriptions } of subscribed) {
      const sharing = subscribed.filter((other) => other.handler.config === handler.config);
      const registered = sharing.map((each) => this.of(each.handler));
      this.undo.push(protectErrorPath(handler.config, subscriptions, registered, this.inboxes));
      this.undo.push(guardDeserializer(handler.config, subscriptions, this.inboxes.undecodable));
      warnOfLostRejections(this.of(handler), subscriptions, this.logger);
    }
  }

  /**
   * @param classRef the class of the instance
   * @param propertyKey name of the method
   */
  find(classRef: object, propertyKey: string): RegisteredHandler | undefined {
    return this.handlers.get(classRef)?.get(propertyKey);
  }

  /** Leaves the handlers, and golevelup's configuration of them, as they were. Call it when the application has stopped. */
  dispose(): void {
    for (const undo of this.undo.splice(0)) undo();
  }

  private of({ classRef, metadata }: DiscoveredHandler): RegisteredHandler {
    return this.find(classRef, metadata.propertyKey) as RegisteredHandler;
  }

  private register(
    handler: DiscoveredHandler,
    subscriptions: readonly Subscription[],
    owners: Map<string, DiscoveredHandler>,
  ): void {
    const { classRef, metadata } = handler;
    const inbox = this.inboxOf(handler);
    const rpc = subscriptions.find(({ effective }) => effective.type === 'rpc');
    const kind = kindOf(handler, subscriptions);
    const isBatch = kind === 'batch';
    const policy = inbox.policyOf(metadata, classRef, kind);
    refuseContradictions(handler, policy, kind);
    const putCheckBack = subscriptions.length > 0 ? liftProtectionCheck(handler.method) : () => undefined;
    this.undo.push(putCheckBack);
    if (isBatch) this.undo.push(wrapBatchMethod(handler.instance as object, metadata.propertyKey));
    checkIdentity(handler, policy.consumer);
    const identity = JSON.stringify([inbox.name, policy.consumer]);
    const owner = owners.get(identity);
    if (owner) throw clash(handler, owner, policy.consumer);
    owners.set(identity, handler);
    const pipeline = handlerPipeline(
      () => this.contexts(),
      handler.instance as object,
      metadata.propertyKey,
      isBatch,
    );
    const registered = {
      name: handler.name,
      inbox,
      policy,
      // Where several subscriptions have deserializers of their own, they decode the same messages, so any will do.
      decode: bodyDecoder(subscriptions[0]),
      replies: rpc && new ReplyCodec(rpc.connection),
      invoke: pipeline.invoke,
      restoreCheck: once(() => {
        pipeline.prepare();
        putCheckBack();
      }),
    };
    const methods = this.handlers.get(classRef) ?? new Map<string, RegisteredHandler>();
    this.handlers.set(classRef, methods.set(metadata.propertyKey, registered));
    // Not where the application says that it takes no messages (`registerHandlers: false`): another process does.
    if (subscriptions.length > 0) inbox.processor.add(registered);
  }

  private inboxOf(handler: DiscoveredHandler): Inbox {
    const name = handler.metadata.options.dataSource;
    const inbox = this.inboxes.find(name);
    if (inbox) return inbox;
    const known = this.inboxes.names.map((each) => `"${each}"`).join(', ') || 'none';
    throw refusal(
      handler,
      'data-source',
      name === undefined
        ? `several data sources are registered and none is the default one, so say which with the option dataSource: ${known}.`
        : `InboxOutboxModule is not registered for the data source "${name}". It is for: ${known}.`,
    );
  }

  private contexts(): ExternalContextCreator {
    return this.moduleRef.get(ExternalContextCreator, { strict: false });
  }

  private connections(): AmqpConnection[] {
    const manager = this.lookUp<AmqpConnectionManager>(AmqpConnectionManager);
    const connections = manager?.getConnections() ?? [this.lookUp<AmqpConnection>(AmqpConnection)];
    return connections.filter((connection) => connection?.configuration !== undefined) as AmqpConnection[];
  }

  private lookUp<T>(token: new (...args: never[]) => T): T | undefined {
    try {
      return this.moduleRef.get<T>(token, { strict: false });
    } catch {
      return undefined; // The application has no RabbitMQModule.
    }
  }
}

/** A class among both controllers and providers is subscribed once when golevelup does not look at controllers. */
function isControllerTwin(
  handler: DiscoveredHandler,
  all: readonly DiscoveredHandler[],
  connections: readonly AmqpConnection[],
): boolean {
  return (
    handler.kind === 'controller' &&
    !connections.some(({ configuration }) => configuration.enableControllerDiscovery) &&
    all.some((other) => other.kind === 'provider' && other.classRef === handler.classRef)
  );
}

function checkIdentity(handler: DiscoveredHandler, consumer: string): void {
  try {
    consumerName('consumer', consumer);
  } catch (error) {
    if (!(error instanceof InvalidOptionError)) throw error;
    throw refusal(
      handler,
      'identity',
      `its default identity has ${Buffer.byteLength(consumer)} bytes, more than 255. Give it a shorter one with the option ` +
        'consumer.',
    );
  }
}

function clash(handler: DiscoveredHandler, owner: DiscoveredHandler, consumer: string): Error {
  if (handler.classRef === owner.classRef && handler.metadata === owner.metadata) {
    const places = [owner, handler].map(({ kind, token }) => `${kind} ${token}`).join(' and ');
    return refusal(
      handler,
      'registered-twice',
      `its class is there twice, as ${places}, and golevelup would subscribe it twice. Provide it once, under one token and ` +
        'in one module that exports it, and not as controller and provider both.',
    );
  }
  return refusal(
    handler,
    'duplicate-identity',
    `${owner.name} has the same identity "${consumer}", so the one would skip what the other has handled. Give one of them ` +
      'another with the option consumer.',
  );
}

function once(work: () => void): () => void {
  let isDone = false;
  return () => {
    if (isDone) return;
    isDone = true;
    work();
  };
}
