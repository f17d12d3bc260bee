import { RABBIT_CONTEXT_TYPE_KEY, RabbitRpcParamsFactory } from '@golevelup/nestjs-rabbitmq';
import { ROUTE_ARGS_METADATA } from '@nestjs/common/constants';
import type { ExternalContextCreator } from '@nestjs/core';
import type { InboundMessage } from './inbound-message';
import type { KeptHandler } from './kept-handler';

/**
 * What golevelup makes of a handler when it subscribes it, made once more: guards, interceptors, pipes, filters and its own
 * parameter decorators apply as to a delivery. Made when it is prepared, or at the first call, so that whatever wraps the method
 * at start is in it.
 *
 * @param instance the provider or controller
 * @param propertyKey name of the method, which may be an inherited one
 * @param isBatch it takes arrays, here of one
 */
export function handlerPipeline(
  creator: () => ExternalContextCreator,
  instance: object,
  propertyKey: string,
  isBatch = false,
): { readonly prepare: () => void; readonly invoke: KeptHandler['invoke'] } {
  type Call = (
    payload: unknown,
    message: InboundMessage | InboundMessage[],
    headers: unknown,
  ) => Promise<unknown>;
  let call: Call | undefined;
  const prepared = (): Call =>
    (call ??= creator().create(
      instance,
      boundMethod(instance, propertyKey),
      propertyKey,
      ROUTE_ARGS_METADATA,
      new RabbitRpcParamsFactory(),
      undefined,
      undefined,
      undefined,
      RABBIT_CONTEXT_TYPE_KEY,
    ) as Call);
  return {
    prepare: () => void prepared(),
    async invoke(payload, message) {
      const { headers } = message.properties;
      return isBatch ? prepared()([payload], [message], [headers]) : prepared()(payload, message, headers);
    },
  };
}

/** From the prototype, as golevelup does; what is known about the method by its metadata has to be known about the copy. */
function boundMethod(instance: object, propertyKey: string): (...args: unknown[]) => unknown {
  const prototype = Object.getPrototypeOf(instance) as Record<string, (...args: unknown[]) => unknown>;
  const method = prototype[propertyKey] as (...args: unknown[]) => unknown;
  const bound = method.bind(instance);
  for (const key of Reflect.getMetadataKeys(method) as unknown[]) {
    Reflect.defineMetadata(key, Reflect.getMetadata(key, method), bound);
  }
  return bound;
}
