import { InvalidOptionError } from '../../message/invalid-option.error';
import { declarePositionalParameters } from './handler-parameters';
import { declareHandler } from './outbox-handler.metadata';
import {
  checkHandlerName,
  resolveOutboxHandlerOptions,
  type OutboxHandlerOptions,
} from './outbox-handler.options';

/**
 * Makes a method the handler of what `OutboxService.enqueue(name, …)` writes: work that needs no broker and is done by a
 * process of the application after the commit.
 *
 * For methods of providers and controllers, above or below other decorators. The method gets the payload and an
 * {@link OutboxHandlerContext}, or what its parameters ask for with `@OutboxPayload()` and `@OutboxContext()`; guards,
 * interceptors, pipes and filters work, with the context type `'outbox'` (see `isOutboxContext()`). It has failed when it
 * throws, and is run again after a pause; what it returns is ignored.
 *
 * @param name as in `enqueue()`; at most 255 bytes, unique among the handlers of a data source
 * @throws {InvalidOptionError} when the decorator is evaluated, naming the option and its value
 */
export function OutboxHandler(name: string, options: OutboxHandlerOptions = {}): MethodDecorator {
  return (target: object, propertyKey: string | symbol, descriptor: PropertyDescriptor) => {
    const owner = `${typeof target === 'function' ? target.name : target.constructor.name}.${String(propertyKey)}`;
    if (typeof target === 'function' || typeof propertyKey === 'symbol') {
      throw new InvalidOptionError('@OutboxHandler()', owner, 'a method of the prototype with a name');
    }
    if (typeof descriptor?.value !== 'function') {
      throw new InvalidOptionError('@OutboxHandler()', owner, 'a method');
    }
    declareHandler(target, {
      name: checkHandlerName(owner, name),
      propertyKey,
      options: resolveOutboxHandlerOptions(options, owner),
    });
    declarePositionalParameters(target.constructor, propertyKey);
  };
}
