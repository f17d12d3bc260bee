import 'reflect-metadata';
import {
  Body,
  createParamDecorator,
  type ExecutionContext,
  type PipeTransform,
  type Type,
} from '@nestjs/common';
import { ROUTE_ARGS_METADATA } from '@nestjs/common/constants';
import type { ParamsFactory } from '@nestjs/core/helpers/external-context-creator';
import type { OutboxHandlerContext } from './outbox-handler-context';

type Pipe = Type<PipeTransform> | PipeTransform;

/**
 * The payload of the message, or one of its properties. Pipes apply as they do to `@Body()` and `@Payload()`, a global
 * `ValidationPipe` too.
 */
export function OutboxPayload(...pipes: Pipe[]): ParameterDecorator;
export function OutboxPayload(property: string, ...pipes: Pipe[]): ParameterDecorator;
export function OutboxPayload(...args: (string | Pipe)[]): ParameterDecorator {
  // Nest knows one kind of parameter that means "what was sent", and pipes look for that kind.
  return Body(...(args as [string, ...Pipe[]]));
}

/** The {@link OutboxHandlerContext} of the run. */
export const OutboxContext: () => ParameterDecorator = createParamDecorator(
  (_data: unknown, context: ExecutionContext) => context.getArgByIndex<OutboxHandlerContext>(1),
);

const POSITIONAL_ARGS = 'nestjs-inbox-outbox:positional-parameters';

/** Nest's `RouteParamtypes.BODY`. */
const BODY = 3;
/** A kind of parameter that Nest's enumeration does not have: pipes see it as `custom`. */
const CONTEXT = -1;

/**
 * For a method without parameter decorators: (payload, context). It is declared like decorated parameters, so that pipes
 * work on the payload as they do in Nest's microservices.
 */
export function declarePositionalParameters(classRef: object, propertyKey: string): void {
  const parameters = {
    [`${BODY}:0`]: { index: 0, data: undefined, pipes: [] },
    [`${CONTEXT}:1`]: { index: 1, data: undefined, pipes: [] },
  };
  Reflect.defineMetadata(POSITIONAL_ARGS, parameters, classRef, propertyKey);
}

/** Which metadata says what the method's parameters are. */
export function parametersKey(classRef: object, propertyKey: string): string {
  return Reflect.hasMetadata(ROUTE_ARGS_METADATA, classRef, propertyKey)
    ? ROUTE_ARGS_METADATA
    : POSITIONAL_ARGS;
}

/** Gets the values of parameters out of (payload, context). */
export const parametersFactory: ParamsFactory = {
  exchangeKeyForValue(type: number, data: unknown, [payload, context]: unknown[]) {
    if (type === CONTEXT) return context;
    if (type !== BODY) return undefined;
    return typeof data === 'string' ? (payload as Record<string, unknown> | null)?.[data] : payload;
  },
};
