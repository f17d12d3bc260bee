import type {
  BatchMessageErrorHandler,
  MessageErrorHandler,
  RabbitHandlerConfig,
} from '@golevelup/nestjs-rabbitmq';
import { Logger } from '@nestjs/common';
import {
  configuredErrors,
  markAsOurBatchHandler,
  markAsOurs,
  withoutOurBatchHandler,
  withoutOurs,
  type ConfiguredErrors,
} from './configured-errors';
import type { Answer } from './answers';
import type { Delivery } from './delivery';
import type { Subscription } from './handler-checks';
import type { InboundMessage } from './inbound-message';
import type { Inboxes } from './inboxes';
import { pauseAfter } from './pauses';
import type { RegisteredHandler } from './registered-handler';
import { ErrorReply, RPC_ERROR_HEADER } from './rpc-error-reply';
import { ack, requeue, type Settlement } from './settlement';
import { thrownDetails } from '../message/thrown-text';

type Channel = Parameters<MessageErrorHandler>[0];
type RawMessage = Parameters<MessageErrorHandler>[1];

/**
 * Puts an error handler of our own into golevelup's configuration of a handler, which golevelup reads when it subscribes.
 *
 * golevelup's own acks or nacks on the very channel that an error may come from, inside a promise that nobody handles: a
 * channel that closes while a handler runs makes the ack fail, then the nack, and then ends the process. It also comes
 * here for whatever fails before our interceptor is reached, and by default requeues that at full speed.
 *
 * @param registered the handlers that share the configuration: more than one where subclasses inherit the method
 * @returns puts back what was there; golevelup has a copy by the time an application runs
 */
export function protectErrorPath(
  config: RabbitHandlerConfig | undefined,
  subscriptions: readonly Subscription[],
  registered: readonly RegisteredHandler[],
  inboxes: Inboxes,
): () => void {
  const undo: (() => void)[] = [];
  for (const subscription of subscriptions) {
    const { entry } = subscription;
    const ofEntry = entry && (Object.hasOwn(entry, 'errorHandler') || entry.errorBehavior !== undefined);
    const target = ofEntry ? entry : config;
    if (!target) continue;
    const path = new ErrorPath(configuredErrors(subscription), registered, inboxes);
    const before = withoutOurs(target.errorHandler);
    target.errorHandler = markAsOurs((...args) => path.handle(...args), before);
    undo.push(() => {
      if (before) target.errorHandler = before;
      else delete target.errorHandler;
    });
    if (subscription.effective.batchOptions) undo.push(protectBatches(subscription, config, path));
  }
  return () => undo.forEach((each) => each());
}

/** A batch has an error handler of its own, which comes first; after one that throws, golevelup can never close. */
function protectBatches(
  { entry, effective }: Subscription,
  config: RabbitHandlerConfig | undefined,
  path: ErrorPath,
): () => void {
  const target = entry?.batchOptions ? entry : config;
  const before = target?.batchOptions;
  if (!target || !before) return () => undefined;
  const custom = withoutOurBatchHandler(effective.batchOptions?.errorHandler);
  const ours = markAsOurBatchHandler(
    (channel, messages, error) => path.handleBatch(channel, messages, error, custom),
    custom,
  );
  target.batchOptions = { ...before, errorHandler: ours };
  return () => (target.batchOptions = before);
}

/**
 * What happens when golevelup reports an error. Never throws.
 *
 * 1. The delivery was answered already: what failed is the ack, or something around after the commit. Answer again, and if
 *    the channel is closed leave it at that: the broker delivers again, and the inbox recognises the message.
 * 2. Otherwise do what the application has configured; where it has said nothing, what the handler's failure policy says.
 */
class ErrorPath {
  private readonly logger = new Logger('Inbox');

  constructor(
    private readonly configured: ConfiguredErrors,
    private readonly registered: readonly RegisteredHandler[],
    private readonly inboxes: Inboxes,
  ) {}

  async handle(channel: Channel, message: RawMessage, error: unknown): Promise<void> {
    try {
      await this.inboxes.running.track(async (abort) => {
        const settlement = await this.decide(channel, message, error, abort);
        if (settlement) this.answer(channel, message, settlement);
      });
    } catch (unexpected) {
      this.logger.error(`The error handling of ${this.names} failed`, thrownDetails(unexpected));
      this.answer(channel, message, requeue);
    }
  }

  /** Each message of a batch on its own, unless the application has a handler for batches. */
  async handleBatch(
    channel: Channel,
    messages: readonly RawMessage[],
    error: unknown,
    custom: BatchMessageErrorHandler | undefined,
  ): Promise<void> {
    const isAnswered = messages.every((message) => this.inboxes.answers.to(message));
    if (!custom || isAnswered) {
      await Promise.all(messages.map((message) => this.handle(channel, message, error)));
      return;
    }
    const handle = () => custom(channel, [...messages], error);
    await this.inboxes.running.track((abort) => this.callCustom(handle, channel, messages, abort));
  }

  private async decide(
    channel: Channel,
    message: RawMessage,
    error: unknown,
    abort: AbortSignal,
  ): Promise<Settlement | undefined> {
    const answer = this.inboxes.answers.to(message);
    if (answer && isFinal(answer.settlement)) {
      this.logger.debug(
        `A message for ${answer.handler.name} was answered, but then: ${thrownDetails(error)}`,
      );
      return replyMayBeLost(answer, message) ? requeue : answer.settlement;
    }
    if (this.configured?.kind === 'custom') {
      const { handle } = this.configured;
      await this.callCustom(() => handle(channel, message, error), channel, [message], abort);
      return undefined;
    }
    if (this.configured?.behavior === 'ack') return ack();
    const handler = answer?.handler ?? this.anonymous();
    const onFailure = this.configured?.behavior ?? handler.policy.onFailure;
    const undecodable = this.inboxes.undecodable.of(message);
    if (undecodable && onFailure !== 'reply') {
      return handler.inbox.burial.settle(handler.policy, message as unknown as InboundMessage, undecodable);
    }
    const delivery: Delivery = {
      policy: { ...handler.policy, onFailure },
      message: message as unknown as InboundMessage,
      payload: () => handler.decode(message as unknown as InboundMessage),
      handle: () => Promise.reject(new Error('It has failed before')),
    };
    const counted = answer?.settlement.kind === 'throw' ? answer.settlement.deliveries : undefined;
    return handler.inbox.deliveries.settleFailure(delivery, error, counted);
  }

  /** An application's own error handler may run into the closed channel too. */
  private async callCustom(
    handle: () => unknown,
    channel: Channel,
    messages: readonly RawMessage[],
    abort: AbortSignal,
  ): Promise<void> {
    try {
      await handle();
    } catch (failure) {
      if (isClosedChannel(failure)) return this.leaveToBroker();
      this.logger.error(
        `The errorHandler of ${this.names} failed; what it was called for is requeued`,
        thrownDetails(failure),
      );
      await pause(abort);
      for (const message of messages) this.answer(channel, message, requeue);
    }
  }

  /**
   * Where several classes share the method, nothing tells for which of them the message came: no row is written, and what
   * would be kept is rejected.
   */
  private anonymous(): RegisteredHandler {
    const first = this.registered[0] as RegisteredHandler;
    if (this.registered.length === 1) return first;
    const { onFailure } = first.policy;
    const policy = {
      ...first.policy,
      messageId: () => undefined,
      onMissingId: 'process' as const,
      onFailure: onFailure === 'retry' ? ('reject' as const) : onFailure,
    };
    return { ...first, policy };
  }

  private answer(channel: Channel, message: RawMessage, settlement: Settlement): void {
    try {
      if (settlement.kind === 'ack') {
        if (settlement.value instanceof ErrorReply) this.reply(channel, message, settlement.value);
        channel.ack(message);
      } else channel.nack(message, false, settlement.kind === 'nack' && settlement.requeue);
    } catch {
      this.leaveToBroker();
    }
  }

  /** What failed outside of our interceptor has no reply of golevelup's. */
  private reply(channel: Channel, message: RawMessage, reply: ErrorReply): void {
    const { replyTo, correlationId, expiration, headers } = message.properties as unknown as ReplyProperties;
    const codec = this.registered[0]?.replies;
    if (!replyTo || !codec) return;
    channel.publish('', replyTo, codec.encode(reply.payload), {
      correlationId,
      expiration,
      headers: { ...headers, [RPC_ERROR_HEADER]: reply.name },
    });
  }

  private leaveToBroker(): void {
    this.logger.debug(
      `The channel of a message for ${this.names} is closed; the broker delivers it again, and what is done is recognised.`,
    );
  }

  private get names(): string {
    return this.registered.map(({ name }) => name).join(', ');
  }
}

function isFinal(settlement: Settlement): boolean {
  return settlement.kind === 'nack' || (settlement.kind === 'ack' && !settlement.provisional);
}

/** Properties of a request that go into its reply, as golevelup does it. */
interface ReplyProperties {
  readonly replyTo?: string;
  readonly correlationId?: string;
  readonly expiration?: string;
  readonly headers?: object;
}

/**
 * golevelup publishes the reply before it acks, so it may be the reply that failed: delivered again, the message is a
 * duplicate, and its reply is sent again. Once, since it might fail in the same way each time.
 */
function replyMayBeLost({ handler, settlement }: Answer, message: RawMessage): boolean {
  return handler.replies !== undefined && settlement.kind === 'ack' && !message.fields.redelivered;
}

function isClosedChannel(error: unknown): boolean {
  return error instanceof Error && error.name === 'IllegalOperationError';
}

function pause(abort: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, pauseAfter(1, 700, 700));
    abort.addEventListener('abort', () => (clearTimeout(timer), resolve()), { once: true });
  });
}
