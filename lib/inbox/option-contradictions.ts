import type { HandlerKind, HandlerPolicy } from './delivery';
import { refusal, type Subscription } from './handler-checks';
import type { DiscoveredHandler } from './handler-discovery';

/** @throws {IdempotentHandlerError} for a handler that would get one message here and many there */
export function kindOf(handler: DiscoveredHandler, subscriptions: readonly Subscription[]): HandlerKind {
  if (subscriptions.some(({ effective }) => effective.type === 'rpc')) return 'rpc';
  const batches = subscriptions.filter(({ effective }) => effective.batchOptions !== undefined);
  if (batches.length === 0) return 'single';
  if (batches.length === subscriptions.length) return 'batch';
  throw refusal(
    handler,
    'batch',
    'it is subscribed with batchOptions and without, so that it would get one message here and many there. Set them for ' +
      'all of its subscriptions or for none.',
  );
}

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
  if (kind === 'batch') refuseForBatches(handler, policy);
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

/** What is said of one message, where the handler gets many. */
function refuseForBatches(
  handler: DiscoveredHandler,
  { processing, onDuplicate, orderingKey }: HandlerPolicy,
): void {
  const reasons = [
    processing === 'deferred' && "processing: 'deferred' handles messages one at a time",
    onDuplicate === 'pass' &&
      "onDuplicate: 'pass' cannot tell the handler which messages of a batch are duplicates",
    orderingKey && 'orderingKey is about messages that are handled one at a time',
  ].filter(Boolean);
  if (reasons.length === 0) return;
  throw refusal(handler, 'batch', `${reasons.join(', and ')}. Remove the option, or batchOptions.`);
}
