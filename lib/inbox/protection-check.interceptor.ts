import 'reflect-metadata';
import { setTimeout as delay } from 'node:timers/promises';
import { Nack, RABBIT_CONTEXT_TYPE_KEY } from '@golevelup/nestjs-rabbitmq';
import { Logger, type CallHandler, type ExecutionContext, type NestInterceptor } from '@nestjs/common';
import { INTERCEPTORS_METADATA } from '@nestjs/common/constants';
import { from, type Observable } from 'rxjs';
import { inboxContext } from './inbox-context';
import { UnprotectedHandlerError } from './unprotected-handler.error';

/** Not a hot loop when every delivery is refused. */
const PAUSE = 1_000;

/**
 * Sits right around every `@Idempotent()` method and lets nothing through that the inbox does not surround: without it, an
 * application that forgot to import the module would handle every message unprotected, and nobody would notice.
 *
 * It is an instance that the decorator attaches as metadata, for three reasons: it needs no module, it works on providers
 * and controllers alike (an interceptor class is left out by golevelup on controllers), and it acts only where Nest runs
 * a pipeline, so that a unit test may still call the method itself.
 *
 * What it refuses goes back to the broker, whatever error behaviour golevelup is set to: nothing is wrong with the message.
 */
export class ProtectionCheck implements NestInterceptor {
  private readonly logger = new Logger('Inbox');

  /** @param propertyKey name of the decorated method */
  constructor(private readonly propertyKey: string) {}

  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    if (context.getType<string>() !== RABBIT_CONTEXT_TYPE_KEY || inboxContext()) return next.handle();
    const error = new UnprotectedHandlerError(`${context.getClass().name}.${this.propertyKey}`);
    this.logger.error(error.message, error.stack);
    return from(delay(PAUSE, new Nack(true), { ref: false }));
  }
}

/**
 * Leaves the check out of pipelines that Nest builds for the method from now on. For an application whose inbox surrounds the
 * method, while it is started: an interceptor costs each message as much as two statements do (docs/performance.md). Of several
 * applications in one process golevelup lets only one consume at a time.
 *
 * @param method as the prototype has it
 * @returns puts it back; may be called twice
 */
export function liftProtectionCheck(method: object): () => void {
  const isCheck = (interceptor: unknown) => interceptor instanceof ProtectionCheck;
  const checks = interceptorsOf(method).filter(isCheck);
  setInterceptors(
    method,
    interceptorsOf(method).filter((interceptor) => !isCheck(interceptor)),
  );
  return () => {
    if (checks.length > 0) setInterceptors(method, [...checks.splice(0), ...interceptorsOf(method)]);
  };
}

function interceptorsOf(method: object): readonly unknown[] {
  return (Reflect.getOwnMetadata(INTERCEPTORS_METADATA, method) as unknown[] | undefined) ?? [];
}

function setInterceptors(method: object, interceptors: readonly unknown[]): void {
  Reflect.defineMetadata(INTERCEPTORS_METADATA, interceptors, method);
}
