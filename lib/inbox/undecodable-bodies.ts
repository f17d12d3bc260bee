import type { RabbitHandlerConfig } from '@golevelup/nestjs-rabbitmq';
import { bodyDecoder, markAsOurDeserializer, withoutOurDeserializer } from './body-decoder';
import { configuredErrors } from './configured-errors';
import type { Subscription } from './handler-checks';
import type { InboundMessage } from './inbound-message';
import { UndecodableBodyError } from './undecodable-body.error';

/** Why the body of a message could not be decoded, for as long as golevelup has the message in its hands. */
export class UndecodableBodies {
  private readonly errors = new WeakMap<object, UndecodableBodyError>();

  note(message: object, error: UndecodableBodyError): void {
    this.errors.set(message, error);
  }

  of(message: object): UndecodableBodyError | undefined {
    return this.errors.get(message);
  }
}

/**
 * Puts a deserializer into golevelup's configuration of a handler that does not throw: what it cannot decode has an
 * `undefined` payload, and is noted for the interceptor. golevelup decodes before any interceptor, requeues what cannot be
 * decoded at full speed, and fails a whole batch for one message.
 *
 * Where the application has told golevelup what to do about errors, it goes on throwing for single messages.
 *
 * @returns puts back what was there
 */
export function guardDeserializer(
  config: RabbitHandlerConfig | undefined,
  subscriptions: readonly Subscription[],
  bodies: UndecodableBodies,
): () => void {
  const undo: (() => void)[] = [];
  for (const subscription of subscriptions) {
    const { entry, effective } = subscription;
    const target = entry && Object.hasOwn(entry, 'deserializer') ? entry : config;
    if (!target) continue;
    const decode = bodyDecoder(subscription);
    const throws = configuredErrors(subscription) !== undefined && !effective.batchOptions;
    const before = withoutOurDeserializer(target.deserializer);
    target.deserializer = markAsOurDeserializer((_content, message) => {
      try {
        return decode(message as unknown as InboundMessage);
      } catch (error) {
        if (throws || !(error instanceof UndecodableBodyError)) throw error;
        bodies.note(message, error);
        return undefined;
      }
    }, before);
    undo.push(() => {
      if (before) target.deserializer = before;
      else delete target.deserializer;
    });
  }
  return () => undo.forEach((each) => each());
}
