import 'reflect-metadata';
import { SetMetadata, UseInterceptors } from '@nestjs/common';
import { InvalidOptionError } from '../message/invalid-option.error';
import { resolveIdempotentOptions, type IdempotentOptions } from './idempotent.options';
import { IDEMPOTENT, type IdempotentMetadata } from './idempotent.metadata';
import { ProtectionCheck } from './protection-check.interceptor';

/**
 * Makes a golevelup handler idempotent: whatever it writes to the database takes effect exactly once per message id, for
 * concurrent and for later redeliveries. The message's row in the inbox table and the handler's writes are one
 * transaction, which everything that uses the data source joins; the message is acked after the commit.
 *
 * For methods with `@RabbitSubscribe`, `@RabbitRPC` or `@RabbitHandler`, above or below them, on providers and (with
 * golevelup's `enableControllerDiscovery`) on controllers. It only leaves metadata behind: the method itself stays as it is
 * and can be called by a unit test.
 *
 * RPC: the reply is kept in the message's row and sent after the commit; a duplicate gets the same. A request that failed is
 * answered with an {@link RpcErrorReply}.
 *
 * What a handler does outside of the database is not undone by a rollback and is done again by the next attempt: publish an
 * outbox message for that.
 *
 * @throws {InvalidOptionError} when the decorator is evaluated, naming the option and its value
 */
export function Idempotent(options: IdempotentOptions = {}): MethodDecorator {
  return (target: object, propertyKey: string | symbol, descriptor: PropertyDescriptor) => {
    const owner = `${typeof target === 'function' ? target.name : target.constructor.name}.${String(propertyKey)}`;
    if (typeof target === 'function' || typeof propertyKey === 'symbol') {
      throw new InvalidOptionError(
        '@Idempotent()',
        owner,
        'a method of the prototype with a name: golevelup finds no other',
      );
    }
    if (typeof descriptor?.value !== 'function') {
      throw new InvalidOptionError('@Idempotent()', owner, 'a method');
    }
    const metadata: IdempotentMetadata = {
      propertyKey,
      options: resolveIdempotentOptions(options, owner),
    };
    // On the function, where golevelup copies it from; and on the class, where another decorator that replaces the
    // function cannot lose it.
    SetMetadata(IDEMPOTENT, metadata)(target, propertyKey, descriptor);
    Reflect.defineMetadata(IDEMPOTENT, metadata, target, propertyKey);
    UseInterceptors(new ProtectionCheck(propertyKey))(target, propertyKey, descriptor);
  };
}
