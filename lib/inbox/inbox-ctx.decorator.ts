import { createParamDecorator } from '@nestjs/common';
import { inboxContext, type InboxContext } from './inbox-context';

/**
 * Injects the {@link InboxContext} as a parameter of an `@Idempotent()` handler, as `@Ctx()` does in Nest's microservices. As
 * with golevelup's own parameter decorators, the handler then gets its decorated parameters only: put `@RabbitPayload()` on
 * the payload.
 *
 * @example async onClaim(@RabbitPayload() claim: Claim, @InboxCtx() { messageId, attempt, signal }: InboxContext) {}
 */
export const InboxCtx: () => ParameterDecorator = createParamDecorator((): InboxContext | undefined =>
  inboxContext(),
);
