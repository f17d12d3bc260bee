import {
  ackErrorHandler,
  defaultNackErrorHandler,
  MessageHandlerErrorBehavior,
  requeueErrorHandler,
  type BatchMessageErrorHandler,
  type MessageErrorHandler,
} from '@golevelup/nestjs-rabbitmq';
import type { Subscription } from './handler-checks';

/** What the application has told golevelup to do about errors; `undefined` when it has said nothing. */
export type ConfiguredErrors =
  | { readonly kind: 'behavior'; readonly behavior: 'ack' | 'reject' | 'requeue' }
  | { readonly kind: 'custom'; readonly handle: MessageErrorHandler }
  | undefined;

/** What our own error handlers stand in for: a second application in this process starts from there. */
const replaced = new WeakMap<object, { readonly original: unknown }>();

function mark<Handler extends object>(ours: Handler, original: Handler | undefined): Handler {
  replaced.set(ours, { original });
  return ours;
}

function unmark<Handler extends object>(handler: Handler | undefined): Handler | undefined {
  const found = handler && replaced.get(handler);
  return found ? (found.original as Handler | undefined) : handler;
}

export const markAsOurs = mark<MessageErrorHandler>;
export const withoutOurs = unmark<MessageErrorHandler>;
export const markAsOurBatchHandler = mark<BatchMessageErrorHandler>;
export const withoutOurBatchHandler = unmark<BatchMessageErrorHandler>;

/** In golevelup's order: handler, behavior, the connection's default (which golevelup sets to requeue itself). */
export function configuredErrors({ connection, effective }: Subscription): ConfiguredErrors {
  const handler = withoutOurs(effective.errorHandler);
  if (handler) return fromHandler(handler);
  if (effective.errorBehavior) return fromBehavior(effective.errorBehavior);
  const { defaultRpcErrorHandler, defaultSubscribeErrorBehavior } = connection.configuration;
  if (effective.type === 'rpc') {
    const isSet = defaultRpcErrorHandler && defaultRpcErrorHandler !== requeueErrorHandler;
    return isSet ? fromHandler(defaultRpcErrorHandler) : undefined;
  }
  return defaultSubscribeErrorBehavior === MessageHandlerErrorBehavior.REQUEUE
    ? undefined
    : fromBehavior(defaultSubscribeErrorBehavior);
}

function fromHandler(handle: MessageErrorHandler): ConfiguredErrors {
  if (handle === ackErrorHandler) return { kind: 'behavior', behavior: 'ack' };
  if (handle === requeueErrorHandler) return { kind: 'behavior', behavior: 'requeue' };
  if (handle === defaultNackErrorHandler) return { kind: 'behavior', behavior: 'reject' };
  return { kind: 'custom', handle };
}

function fromBehavior(behavior: MessageHandlerErrorBehavior | undefined): ConfiguredErrors {
  if (behavior === MessageHandlerErrorBehavior.ACK) return { kind: 'behavior', behavior: 'ack' };
  if (behavior === MessageHandlerErrorBehavior.REQUEUE) return { kind: 'behavior', behavior: 'requeue' };
  return { kind: 'behavior', behavior: 'reject' };
}
