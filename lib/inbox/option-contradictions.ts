import type { HandlerPolicy } from './delivery';
import { refusal } from './handler-checks';
import type { DiscoveredHandler } from './handler-discovery';

/** How golevelup calls the handler. */
export type HandlerKind = 'single' | 'rpc' | 'batch';

/**
 * Options that cannot be kept together with what kind of handler it is.
 *
 * @throws {IdempotentHandlerError}
 */
export function refuseContradictions(
  handler: DiscoveredHandler,
  policy: HandlerPolicy,
  kind: HandlerKind,
): void {
  if (kind === 'rpc') refuseKeptRequests(handler, policy);
  else refuseReplies(handler, policy);
}

/** Who has sent a request waits for the reply, which a later run cannot send any more. */
function refuseKeptRequests(handler: DiscoveredHandler, { processing, onFailure }: HandlerPolicy): void {
  const kept = processing === 'deferred' ? "processing: 'deferred'" : "onFailure: 'retry'";
  if (processing !== 'deferred' && onFailure !== 'retry') return;
  throw refusal(
    handler,
    'rpc-kept',
    `${kept} is not for RPC: the requester waits for its reply, and a run from the inbox table comes too late for it. Remove ` +
      'the option.',
  );
}

/** Nobody waits for a reply to a message that is no request. */
function refuseReplies(handler: DiscoveredHandler, { onFailure, errorReply }: HandlerPolicy): void {
  if (onFailure !== 'reply' && errorReply === undefined) return;
  const option = onFailure === 'reply' ? "onFailure: 'reply'" : 'errorReply';
  throw refusal(
    handler,
    'reply-without-rpc',
    `${option} is for @RabbitRPC() handlers: nobody waits for a reply here. Remove the option.`,
  );
}
