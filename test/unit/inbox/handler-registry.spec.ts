import 'reflect-metadata';
import {
  AmqpConnectionManager,
  RabbitRPC,
  RabbitSubscribe,
  RABBIT_HANDLER,
  type RabbitMQConfig,
} from '@golevelup/nestjs-rabbitmq';
import {
  Controller,
  Inject,
  Injectable,
  Logger,
  Scope,
  UseInterceptors,
  type CallHandler,
  type ModuleMetadata,
  type NestInterceptor,
} from '@nestjs/common';
import { INTERCEPTORS_METADATA } from '@nestjs/common/constants';
import { DiscoveryModule, DiscoveryService, ModuleRef } from '@nestjs/core';
import { Test } from '@nestjs/testing';
import { HandlerRegistry } from '../../../lib/inbox/handler-registry';
import { IdempotentHandlerError } from '../../../lib/inbox/idempotent-handler.error';
import { Idempotent } from '../../../lib/inbox/idempotent.decorator';
import type { IdempotentOptions } from '../../../lib/inbox/idempotent.options';
import type { Inbox } from '../../../lib/inbox/inbox';
import { Inbox as RealInbox } from '../../../lib/inbox/inbox';
import { Inboxes } from '../../../lib/inbox/inboxes';
import { resolveOptions } from '../../../lib/resolved-options';

const subscribe = (queue = 'q') => RabbitSubscribe({ queue, queueOptions: { deadLetterExchange: 'dlx' } });

function fakeInboxes(...names: string[]): Inboxes {
  const inboxes = new Inboxes();
  const policyOf = RealInbox.prototype.policyOf.bind({ settings: { options: resolveOptions().inbox } });
  const known = new Map(
    names.map((name) => [name, { name, policyOf, processor: { add: () => undefined } } as unknown as Inbox]),
  );
  return Object.assign(inboxes, { byName: known });
}

/** Starts the registry in an application with these parts; golevelup is replaced by its configuration. */
async function start(
  parts: Pick<ModuleMetadata, 'providers' | 'controllers' | 'imports'>,
  configuration: Partial<RabbitMQConfig>[] = [{}],
  dataSources = ['default'],
): Promise<HandlerRegistry> {
  const connections = configuration.map((given) => ({
    configuration: {
      name: 'default',
      queues: [],
      handlers: {},
      registerHandlers: true,
      enableDirectReplyTo: true,
      enableControllerDiscovery: false,
      defaultSubscribeErrorBehavior: 'REQUEUE',
      ...given,
    },
  }));
  const module = await Test.createTestingModule({
    ...parts,
    imports: [DiscoveryModule, ...(parts.imports ?? [])],
    providers: [
      ...(parts.providers ?? []),
      { provide: AmqpConnectionManager, useValue: { getConnections: () => connections } },
      {
        provide: HandlerRegistry,
        inject: [DiscoveryService, ModuleRef],
        useFactory: (discovery: DiscoveryService, moduleRef: ModuleRef) =>
          new HandlerRegistry(discovery, moduleRef, fakeInboxes(...dataSources)),
      },
    ],
  }).compile();
  const registry = module.get(HandlerRegistry);
  registry.onModuleInit();
  return registry;
}

async function refused(...args: Parameters<typeof start>): Promise<IdempotentHandlerError> {
  const error: unknown = await start(...args).catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(IdempotentHandlerError);
  return error as IdempotentHandlerError;
}

@Injectable()
class Good {
  @subscribe()
  @Idempotent()
  async handle(): Promise<void> {}
}

describe('start-up refuses handlers that could not be protected', () => {
  beforeAll(() => void Logger.overrideLogger(false));

  it('takes a good one, and finds it by class and method', async () => {
    const registry = await start({ providers: [Good] });
    expect(registry.find(Good, 'handle')?.policy.consumer).toBe('Good.handle');
    expect(registry.find(Good, 'other')).toBeUndefined();
  });

  it('two handlers with one identity', async () => {
    @Injectable()
    class Other {
      @subscribe()
      @Idempotent({ consumer: 'Good.handle' })
      async handle(): Promise<void> {}
    }
    const error = await refused({ providers: [Good, Other] });
    expect(error).toMatchObject({ handler: 'Other.handle', problem: 'duplicate-identity' });
    expect(error.message).toContain('Good.handle has the same identity');
  });

  it('the same identity for two data sources is none', async () => {
    @Injectable()
    class Billing {
      @subscribe()
      @Idempotent({ consumer: 'Good.handle', dataSource: 'billing' })
      async handle(): Promise<void> {}
    }
    await start({ providers: [Good, Billing] }, [{}], ['default', 'billing']);
  });

  it('a method without a golevelup decorator', async () => {
    @Injectable()
    class Forgotten {
      @Idempotent()
      async handle(): Promise<void> {}
    }
    expect(await refused({ providers: [Forgotten] })).toMatchObject({
      handler: 'Forgotten.handle',
      problem: 'not-subscribed',
    });
  });

  it('C17: a method that another decorator has replaced, dropping its metadata', async () => {
    const replace = (_target: object, _key: string, descriptor: PropertyDescriptor) => {
      descriptor.value = () => undefined;
    };
    @Injectable()
    class Replaced {
      @subscribe()
      @replace
      @Idempotent()
      async handle(): Promise<void> {}
    }
    expect(await refused({ providers: [Replaced] })).toMatchObject({ problem: 'replaced-method' });
  });

  it('a controller, when golevelup does not look at controllers', async () => {
    @Controller()
    class Web {
      @subscribe()
      @Idempotent()
      async handle(): Promise<void> {}
    }
    expect(await refused({ controllers: [Web] })).toMatchObject({ problem: 'controller-discovery' });
    await start({ controllers: [Web] }, [{ enableControllerDiscovery: true }]);
    // Among the providers too it is called once, and that is enough.
    await start({ controllers: [Web], providers: [Web] });
    expect(
      await refused({ controllers: [Web], providers: [Web] }, [{ enableControllerDiscovery: true }]),
    ).toMatchObject({ problem: 'registered-twice' });
  });

  it('C17: a request-scoped provider, by itself or through what it injects, and a transient one', async () => {
    @Injectable({ scope: Scope.REQUEST })
    class PerRequest {
      @subscribe()
      @Idempotent()
      async handle(): Promise<void> {}
    }
    @Injectable()
    class Through {
      constructor(@Inject(PerRequest) readonly dependency: PerRequest) {}

      @subscribe()
      @Idempotent()
      async handle(): Promise<void> {}
    }
    @Injectable({ scope: Scope.TRANSIENT })
    class Transient {
      @subscribe()
      @Idempotent()
      async handle(): Promise<void> {}
    }
    expect(await refused({ providers: [PerRequest] })).toMatchObject({
      handler: 'PerRequest.handle',
      problem: 'request-scope',
    });
    expect(
      await refused({ providers: [{ provide: PerRequest, useClass: PlainScoped }, Through] }),
    ).toMatchObject({
      handler: 'Through.handle',
      problem: 'request-scope',
    });
    expect(await refused({ providers: [Transient] })).toMatchObject({ problem: 'request-scope' });
  });

  it('a batch handler that is subscribed without batchOptions too', async () => {
    @Injectable()
    class Named {
      @RabbitSubscribe({ name: 'named' })
      @Idempotent()
      async handle(): Promise<void> {}
    }
    const handlers = { named: [{ queue: 'a' }, { queue: 'b', batchOptions: { size: 5 } }] };
    expect(await refused({ providers: [Named] }, [{ handlers }])).toMatchObject({ problem: 'batch' });
  });

  it.each([
    ['batch', { onDuplicate: 'pass' }],
    ['batch', { processing: 'deferred' }],
    ['batch', { orderingKey: () => 'key' }],
    ['reply-without-rpc', { onFailure: 'reply' }],
    ['reply-without-rpc', { errorReply: () => 'sorry' }],
  ] as [string, IdempotentOptions][])(
    'a batch handler with options that are for others: %s %j',
    async (problem, options) => {
      @Injectable()
      class Batch {
        @RabbitSubscribe({ queue: 'q', batchOptions: { size: 5 } })
        @Idempotent(options)
        async handle(): Promise<void> {}
      }
      expect(await refused({ providers: [Batch] })).toMatchObject({ problem });
    },
  );

  it('leaves a batch handler and its configuration as they were', async () => {
    const batchOptions = { size: 5 };
    @Injectable()
    class Batch {
      @RabbitSubscribe({ queue: 'q', batchOptions })
      @Idempotent()
      async handle(_messages: unknown[]): Promise<void> {}
    }
    const original = Batch.prototype.handle;
    const config = Reflect.getMetadata(RABBIT_HANDLER, original) as object;
    const before = { ...config };
    const registry = await start({ providers: [Batch] });
    expect(Batch.prototype.handle).not.toBe(original);
    expect(Batch.prototype.handle).toHaveProperty('name', 'handle');
    expect(Batch.prototype.handle).toHaveLength(1);
    for (const key of Reflect.getMetadataKeys(original) as unknown[]) {
      expect(Reflect.getMetadata(key, Batch.prototype.handle)).toBe(Reflect.getMetadata(key, original));
    }
    registry.dispose();
    expect(Batch.prototype.handle).toBe(original);
    expect(config).toEqual(before);
    expect(batchOptions).toEqual({ size: 5 });
  });

  it('a named handler that the connection does not have', async () => {
    @Injectable()
    class Named {
      @RabbitSubscribe({ name: 'named' })
      @Idempotent()
      async handle(): Promise<void> {}
    }
    const error = await refused({ providers: [Named] }, [{ handlers: { other: {} } }]);
    expect(error).toMatchObject({ problem: 'unknown-handler-name' });
    expect(error.message).toContain('no entry "named"');
    expect(error.message).toContain('other');
    await start({ providers: [Named] }, [{ handlers: { named: [] } }]); // said to be off
  });

  it('a connection that does not exist, and an RPC handler without direct reply-to', async () => {
    @Injectable()
    class Elsewhere {
      @RabbitSubscribe({ queue: 'q', connection: 'elsewhere' })
      @Idempotent()
      async handle(): Promise<void> {}
    }
    @Injectable()
    class Rpc {
      @RabbitRPC({ queue: 'q', exchange: 'x', routingKey: 'k' })
      @Idempotent()
      async handle(): Promise<void> {}
    }
    expect(await refused({ providers: [Elsewhere] })).toMatchObject({ problem: 'unknown-connection' });
    await start({ providers: [Elsewhere] }, [{}, { name: 'elsewhere' }]);
    expect(await refused({ providers: [Rpc] }, [{ enableDirectReplyTo: false }])).toMatchObject({
      problem: 'direct-reply-to',
    });
  });

  it('C17: a class that is there twice: two tokens, an alias, two modules', async () => {
    const twice = [
      { providers: [Good, { provide: 'other', useClass: Good }] },
      { providers: [Good, { provide: 'other', useExisting: Good }] },
      { providers: [Good], imports: [{ module: class Feature {}, providers: [Good] }] },
    ];
    for (const parts of twice) {
      expect(await refused(parts)).toMatchObject({ handler: 'Good.handle', problem: 'registered-twice' });
    }
  });

  it('a data source that the module is not registered for; the only one is the default', async () => {
    @Injectable()
    class Billing {
      @subscribe()
      @Idempotent({ dataSource: 'billing' })
      async handle(): Promise<void> {}
    }
    expect(await refused({ providers: [Billing] })).toMatchObject({ problem: 'data-source' });
    await start({ providers: [Good] }, [{}], ['billing']);
    expect(await refused({ providers: [Good] }, [{}], ['billing', 'shipping'])).toMatchObject({
      problem: 'data-source',
    });
  });

  it('C14: a default identity of more than 255 bytes', async () => {
    const key = 'm'.repeat(260);
    class Long {}
    const method = () => Promise.resolve();
    const descriptor = { value: method, configurable: true, writable: true, enumerable: false };
    Object.defineProperty(Long.prototype, key, descriptor);
    subscribe()(Long.prototype, key, descriptor);
    Idempotent()(Long.prototype, key, descriptor);
    Injectable()(Long);
    expect(await refused({ providers: [Long] })).toMatchObject({ problem: 'identity' });
  });

  it('does not look at handlers that the application has switched off', async () => {
    @Controller()
    class Web {
      @subscribe()
      @Idempotent()
      async handle(): Promise<void> {}
    }
    await start({ controllers: [Web] }, [{ registerHandlers: false }]);
  });

  it('takes its check off what it protects while it starts, and puts it back with the first delivery or at its end', async () => {
    class Other implements NestInterceptor {
      intercept = (_: unknown, next: CallHandler) => next.handle();
    }
    @Injectable()
    class Twice {
      @RabbitSubscribe({ queue: 'q' })
      @UseInterceptors(Other)
      @Idempotent()
      async handle(): Promise<void> {}
    }
    const interceptors = () =>
      (Reflect.getMetadata(INTERCEPTORS_METADATA, Twice.prototype.handle) as object[]).map((each) =>
        each === Other ? 'other' : each.constructor.name,
      );
    expect(interceptors()).toEqual(['ProtectionCheck', 'other']);
    const first = await start({ providers: [Twice] });
    expect(interceptors()).toEqual(['other']);
    first.find(Twice, 'handle')?.restoreCheck();
    expect(interceptors()).toEqual(['ProtectionCheck', 'other']);
    first.dispose();
    expect(interceptors()).toEqual(['ProtectionCheck', 'other']);

    const second = await start({ providers: [Twice] });
    const third = await start({ providers: [Twice] });
    expect(interceptors()).toEqual(['other']);
    third.dispose();
    second.dispose();
    expect(interceptors()).toEqual(['ProtectionCheck', 'other']);
    await start({ providers: [Twice] }, [{ registerHandlers: false }]);
    expect(interceptors()).toEqual(['ProtectionCheck', 'other']);
  });

  it("leaves golevelup's configuration as it was when the application has stopped", async () => {
    const config = () => Reflect.getMetadata(RABBIT_HANDLER, Good.prototype.handle) as object;
    const registry = await start({ providers: [Good] });
    expect(config()).toHaveProperty('errorHandler');
    registry.dispose();
    expect(config()).not.toHaveProperty('errorHandler');
  });
});

@Injectable({ scope: Scope.REQUEST })
class PlainScoped {}
