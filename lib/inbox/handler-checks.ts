import type { AmqpConnection, MessageHandlerOptions, RabbitHandlerConfig } from '@golevelup/nestjs-rabbitmq';
import type { DiscoveredHandler } from './handler-discovery';
import { IdempotentHandlerError, type IdempotentHandlerProblem } from './idempotent-handler.error';

/** One way in which golevelup will subscribe a handler: its decorator's configuration, merged with the module's. */
export interface Subscription {
  readonly connection: AmqpConnection;
  /** The entry of the module's `handlers`, for a handler with a name. */
  readonly entry: MessageHandlerOptions | undefined;
  readonly effective: RabbitHandlerConfig;
}

/**
 * All ways in which golevelup will subscribe the handler.
 *
 * @returns none where the application says that it takes no messages (`registerHandlers: false`, an empty `handlers` entry)
 * @throws {IdempotentHandlerError} when golevelup would leave the handler out without a word, or call it in a way in which
 *   it cannot be protected
 */
export function subscriptionsOf(
  handler: DiscoveredHandler,
  connections: readonly AmqpConnection[],
): Subscription[] {
  const config = checkMethod(handler);
  const mine = connections.filter(
    ({ configuration }) => !config.connection || configuration.name === config.connection,
  );
  if (mine.length === 0 && connections.length > 0) {
    const names = connections.map(({ configuration }) => configuration.name).join(', ');
    throw refusal(
      handler,
      'unknown-connection',
      `golevelup has no connection "${config.connection}", so it will not call this method. It has: ${names}.`,
    );
  }
  const active = mine.filter(({ configuration }) => configuration.registerHandlers);
  const calling =
    handler.kind === 'provider'
      ? active
      : active.filter(({ configuration }) => configuration.enableControllerDiscovery);
  if (calling.length === 0 && active.length > 0) {
    throw refusal(
      handler,
      'controller-discovery',
      'golevelup does not look at controllers, so it will not call this method. Set enableControllerDiscovery: true in ' +
        'RabbitMQModule.forRoot(), or move the method to a provider.',
    );
  }
  return calling.flatMap((connection) => subscriptionsOn(connection, handler, config));
}

function checkMethod(handler: DiscoveredHandler): RabbitHandlerConfig {
  if (handler.isScoped) {
    throw refusal(
      handler,
      'request-scope',
      'its class is request-scoped or transient, itself or through something that it injects. golevelup calls such a ' +
        'method without dependencies or not at all. Make the class and what it injects singletons.',
    );
  }
  if (handler.isReplaced) {
    throw refusal(
      handler,
      'replaced-method',
      'another decorator has replaced the method and dropped its metadata, so the method would be called unprotected. ' +
        'Put @Idempotent() above that decorator, or have it copy the metadata of the method.',
    );
  }
  if (!handler.config) {
    throw refusal(
      handler,
      'not-subscribed',
      'the method has none of @RabbitSubscribe(), @RabbitRPC() and @RabbitHandler(), or another decorator has dropped it, ' +
        'so golevelup will not call it. Add one, or remove @Idempotent().',
    );
  }
  return handler.config;
}

function subscriptionsOn(
  connection: AmqpConnection,
  handler: DiscoveredHandler,
  config: RabbitHandlerConfig,
): Subscription[] {
  const { handlers, defaultHandler, enableDirectReplyTo, name } = connection.configuration;
  const lookup = config.name || defaultHandler;
  if (lookup && !Object.hasOwn(handlers, lookup)) {
    const known = Object.keys(handlers).join(', ') || 'none';
    throw refusal(
      handler,
      'unknown-handler-name',
      `golevelup's connection "${name}" has no entry "${lookup}" in its handlers, so it will not call this method. It has: ` +
        `${known}.`,
    );
  }
  const entries = lookup ? [handlers[lookup]].flat() : [undefined];
  return entries.map((entry) => {
    const effective = { ...config, ...entry };
    if (effective.type === 'rpc' && !enableDirectReplyTo) {
      throw refusal(
        handler,
        'direct-reply-to',
        `golevelup's connection "${name}" has enableDirectReplyTo: false and registers no RPC handlers, so it will not call ` +
          'this method.',
      );
    }
    return { connection, entry, effective };
  });
}

export function refusal(
  handler: DiscoveredHandler,
  problem: IdempotentHandlerProblem,
  detail: string,
): IdempotentHandlerError {
  return new IdempotentHandlerError(handler.name, problem, detail);
}
