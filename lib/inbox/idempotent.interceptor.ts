import { Nack, RABBIT_CONTEXT_TYPE_KEY } from '@golevelup/nestjs-rabbitmq';
import { Injectable, type CallHandler, type ExecutionContext, type NestInterceptor } from '@nestjs/common';
import { from, lastValueFrom, type Observable } from 'rxjs';
import { batchAnswer } from './batch-answer';
import { BatchArguments } from './batch-arguments';
import type { Delivery } from './delivery';
import { HandlerRegistry } from './handler-registry';
import type { InboundMessage } from './inbound-message';
import { metadataOfFunction } from './idempotent.metadata';
import { Inboxes } from './inboxes';
import { restorePayload } from './payload';
import type { RegisteredHandler } from './registered-handler';
import { ErrorReply, errorReply, markAsError } from './rpc-error-reply';
import { ack, type Settlement } from './settlement';

/**
 * Puts the inbox around every `@Idempotent()` handler. Provided as `APP_INTERCEPTOR`, once per application; everything
 * inside of it (interceptors of class and method, pipes, the handler) runs in the handler's transaction, guards do not.
 *
 * It never throws for a failed message where it can help it: an exception filter that returns a value would get the message
 * acked although nothing of it was kept. It answers with golevelup's `Nack` instead.
 */
@Injectable()
export class IdempotentInterceptor implements NestInterceptor {
  constructor(
    private readonly handlers: HandlerRegistry,
    private readonly inboxes: Inboxes,
  ) {}

  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    if (context.getType<string>() !== RABBIT_CONTEXT_TYPE_KEY) return next.handle();
    // By metadata: golevelup hands over a bound copy of the method, so neither its identity nor its name tells.
    const metadata = metadataOfFunction(context.getHandler());
    const handler = metadata && this.handlers.find(context.getClass(), metadata.propertyKey);
    // One that is not registered is stopped by its ProtectionCheck.
    if (!handler) return next.handle();
    const args = context.getArgs<[unknown, InboundMessage]>();
    const [payload, message] = args;
    return from(
      Array.isArray(message)
        ? this.handleBatch(handler, new BatchArguments(args, handler.decode), next)
        : this.handle(handler, payload, message, next),
    );
  }

  private handle(
    handler: RegisteredHandler,
    payload: unknown,
    message: InboundMessage,
    next: CallHandler,
  ): Promise<unknown> {
    let runs = 0;
    const handle = () => {
      if (runs++ > 0 && typeof payload === 'object') restorePayload(payload, handler.decode(message));
      return lastValueFrom<unknown, undefined>(next.handle(), { defaultValue: undefined });
    };
    // A message of the inbox table: the processor has called the pipeline, and the delivery it came by was acked long ago.
    const kept = handler.inbox.runs.get(message);
    if (kept) return kept.intercept(handler.inbox.fingerprints.noting(handler.policy, message, handle));
    handler.restoreCheck();
    const delivery = { policy: handler.policy, message, payload: () => payload, handle };
    const settling = this.inboxes.running.track((abort) => this.settle(handler, delivery, abort));
    return settling.then((settlement) => {
      this.inboxes.answers.remember(message, { handler, settlement });
      return answerOf(settlement, message);
    });
  }

  private async handleBatch(
    handler: RegisteredHandler,
    batch: BatchArguments,
    next: CallHandler,
  ): Promise<unknown> {
    const { inbox, policy, decode } = handler;
    const { messages } = batch;
    const handle = (indices: readonly number[]) =>
      batch.run(indices, () => lastValueFrom<unknown, undefined>(next.handle(), { defaultValue: undefined }));
    // Comes alone from the inbox table.
    const kept = messages[0] && inbox.runs.get(messages[0]);
    if (kept) {
      const noting = inbox.fingerprints.noting(policy, messages[0] as InboundMessage, () => handle([0]));
      return kept.intercept(noting);
    }
    handler.restoreCheck();
    const settlements = await this.inboxes.running.track((abort) =>
      inbox.batches.settle({ policy, messages, decode, handle }, abort),
    );
    for (const [index, settlement] of settlements.entries()) {
      this.inboxes.answers.remember(messages[index] as InboundMessage, { handler, settlement });
    }
    return batchAnswer(settlements);
  }

  private settle(handler: RegisteredHandler, delivery: Delivery, abort: AbortSignal): Promise<Settlement> {
    const { inbox, policy, replies } = handler;
    const undecodable = this.inboxes.undecodable.of(delivery.message);
    if (undecodable && policy.onFailure === 'reply') {
      return Promise.resolve(ack(errorReply(undecodable, policy.errorReply)));
    }
    if (undecodable) return inbox.burial.settle(policy, delivery.message, undecodable);
    return inbox.fingerprints.settle(delivery, (each) =>
      replies ? inbox.rpc.settle(each, replies, abort) : inbox.deliveries.settle(each, abort),
    );
  }
}

/** What golevelup makes of it: nack for a `Nack`, its error handling for a throw, ack for everything else. */
function answerOf(settlement: Settlement, message: InboundMessage): unknown {
  if (settlement.kind === 'throw') throw settlement.error;
  if (settlement.kind === 'nack') return new Nack(settlement.requeue);
  if (!(settlement.value instanceof ErrorReply)) return settlement.value;
  markAsError(message, settlement.value);
  return settlement.value.payload;
}

/** What all registrations of the module in one application share. */
export interface InterceptedApplication {
  readonly handlers: HandlerRegistry;
  readonly inboxes: Inboxes;
  /** True for the first who asks. */
  claimInterceptor(): boolean;
}

/** The global interceptor for one registration: the first gets the real one, since two would take each delivery twice. */
export function createInterceptor(application: InterceptedApplication): NestInterceptor {
  return application.claimInterceptor()
    ? new IdempotentInterceptor(application.handlers, application.inboxes)
    : { intercept: (_context, next) => next.handle() };
}
