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

interface Lifted {
  readonly interceptors: readonly unknown[];
  by: number;
}

const lifted = new WeakMap<object, Lifted>();

/**
 * Leaves the check out of pipelines that Nest builds for the method from now on. For an application whose inbox surrounds the
 * method: an interceptor costs each message as much as two statements do (docs/performance.md). Of several applications in one
 * process golevelup lets only one consume, so none builds a pipeline that would need it.
 *
 * @param method as the prototype has it
 * @returns undoes it
 */
export function liftProtectionCheck(method: object): () => void {
  const interceptors = Reflect.getOwnMetadata(INTERCEPTORS_METADATA, method) as unknown[] | undefined;
  const state = lifted.get(method) ?? { interceptors: interceptors ?? [], by: 0 };
  lifted.set(method, state);
  state.by += 1;
  const others = state.interceptors.filter((each) => !(each instanceof ProtectionCheck));
  Reflect.defineMetadata(INTERCEPTORS_METADATA, others, method);
  return () => {
    state.by -= 1;
    if (state.by > 0) return;
    lifted.delete(method);
    Reflect.defineMetadata(INTERCEPTORS_METADATA, state.interceptors, method);
  };
}
