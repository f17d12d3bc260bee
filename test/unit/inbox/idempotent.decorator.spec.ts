import 'reflect-metadata';
import { RabbitHandler, RabbitSubscribe, RABBIT_HANDLER } from '@golevelup/nestjs-rabbitmq';
import { SetMetadata, UseGuards, UseInterceptors } from '@nestjs/common';
import { Idempotent } from '../../../lib/inbox/idempotent.decorator';
import { metadataOfDeclaration, metadataOfFunction } from '../../../lib/inbox/idempotent.metadata';
import type { IdempotentOptions } from '../../../lib/inbox/idempotent.options';
import { InvalidOptionError } from '../../../lib/message/invalid-option.error';

const subscribe = RabbitSubscribe({ queue: 'q' });
const guard = { canActivate: () => true };
const interceptor = { intercept: () => undefined as never };

class Orders {
  @subscribe
  @Idempotent({ consumer: 'above' })
  async above(): Promise<void> {}

  @Idempotent({ consumer: 'below', timeout: '2s' })
  @SetMetadata('k', 1)
  @UseGuards(guard)
  @UseInterceptors(interceptor)
  @subscribe
  async below(): Promise<void> {}
}

const evaluate = (options: unknown) => {
  class Consumer {
    async handle(): Promise<void> {}
  }
  const descriptor = Object.getOwnPropertyDescriptor(
    Consumer.prototype,
    'handle',
  ) as TypedPropertyDescriptor<unknown>;
  Idempotent(options as IdempotentOptions)(Consumer.prototype, 'handle', descriptor);
};

describe('@Idempotent()', () => {
  it('C17: leaves the method, its name and all other metadata as they are, in either order', () => {
    const { above, below } = Orders.prototype;
    expect([above.name, below.name]).toEqual(['above', 'below']);
    for (const method of [above, below]) {
      expect(Reflect.getMetadata(RABBIT_HANDLER, method)).toMatchObject({ queue: 'q' });
      expect(metadataOfFunction(method)).toBe(metadataOfDeclaration(Orders.prototype, method.name));
    }
    expect(Reflect.getMetadata('k', below)).toBe(1);
    expect(Reflect.getMetadata('__guards__', below)).toEqual([guard]);
    expect(Reflect.getMetadata('__interceptors__', below)).toContain(interceptor);
    expect(metadataOfFunction(below)).toEqual({
      propertyKey: 'below',
      options: { consumer: 'below', timeout: 2000 },
    });
  });

  it('a subclass that overrides the method does not inherit the declaration', () => {
    class Sub extends Orders {
      override async above(): Promise<void> {}
    }
    class Plain extends Orders {}
    expect(metadataOfDeclaration(Sub.prototype, 'above')).toBeUndefined();
    expect(metadataOfDeclaration(Plain.prototype, 'above')).toBeDefined();
  });

  it('may stand above @RabbitHandler as well', () => {
    const handler = RabbitHandler({ type: 'subscribe', queue: 'q' }) as MethodDecorator;
    class Named {
      @Idempotent()
      @handler
      async handle(): Promise<void> {}
    }
    expect(metadataOfFunction(Named.prototype.handle)).toBeDefined();
  });

  it.each<[string, unknown]>([
    ['consumer', ''],
    ['consumer', '  '],
    ['consumer', 'é'.repeat(128)],
    ['consumer', 'a\0'],
    ['consumer', 5],
    ['messageId', 'id'],
    ['onMissingId', 'ignore'],
    ['onDuplicate', 'fail'],
    ['onFailure', 'again'],
    ['processing', 'later'],
    ['orderingKey', 'key'],
    ['retry', 5],
    ['timeout', '0s'],
    ['timeout', 'soon'],
    ['isolationLevel', 'serializable'],
    ['dataSource', ''],
    ['onFailur', 'reject'],
  ])('refuses %s: %p, by name and with the value', (option, value) => {
    expect(() => evaluate({ [option]: value })).toThrow(InvalidOptionError);
    expect(() => evaluate({ [option]: value })).toThrow(`@Idempotent(Consumer.handle).${option}`);
  });

  it('refuses options that contradict each other, and bad ones of the retry', () => {
    const deferred = { processing: 'deferred' };
    expect(() => evaluate({ ...deferred, onFailure: 'reject' })).toThrow('Consumer.handle).onFailure');
    expect(() => evaluate({ ...deferred, onDuplicate: 'pass' })).toThrow('Consumer.handle).onDuplicate');
    expect(() => evaluate({ ...deferred, onFailure: 'retry', onDuplicate: 'skip' })).not.toThrow();
    expect(() => evaluate({ retry: { maxAttempts: 0 } })).toThrow('Consumer.handle).retry.maxAttempts');
    expect(() => evaluate({ retry: { backoff: { factor: 0 } } })).toThrow('.retry.backoff.factor');
    expect(() => evaluate({ retry: { attempts: 3 } })).toThrow('.retry.attempts');
  });

  it('refuses options that are no object, and takes undefined for left out', () => {
    expect(() => evaluate(null)).toThrow(InvalidOptionError);
    expect(() => evaluate({ consumer: undefined })).not.toThrow();
  });

  it('refuses static methods, symbols and accessors: golevelup finds none of them', () => {
    const symbol = Symbol('s');
    const decorate = Idempotent();
    expect(() => decorate(Orders, 'x', { value: () => undefined })).toThrow(InvalidOptionError);
    expect(() => decorate(Orders.prototype, symbol, { value: () => undefined })).toThrow(InvalidOptionError);
    expect(() => decorate(Orders.prototype, 'x', { get: () => undefined })).toThrow(InvalidOptionError);
  });
});
