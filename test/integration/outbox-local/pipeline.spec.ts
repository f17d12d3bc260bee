import {
  Catch,
  Controller,
  createParamDecorator,
  Injectable,
  Module,
  ParseIntPipe,
  Scope,
  UseFilters,
  UseGuards,
  UseInterceptors,
  UsePipes,
  type ArgumentsHost,
  type CallHandler,
  type CanActivate,
  type ExceptionFilter,
  type ExecutionContext,
  type NestInterceptor,
  type PipeTransform,
  type Provider,
  type Type,
} from '@nestjs/common';
import { APP_GUARD, APP_PIPE } from '@nestjs/core';
import { EntityManager } from 'typeorm';
import { tap } from 'rxjs';
import {
  InvalidOptionError,
  isOutboxContext,
  OutboxContext,
  OutboxHandler,
  OutboxHandlerError,
  OutboxPayload,
  type OutboxHandlerContext,
} from '../../../lib';
import { LocalSetup, type LocalApp } from './local-setup';

const log: string[] = [];

@Injectable()
class Helper {
  readonly name = 'helper';
}

@Injectable()
class Guard implements CanActivate {
  constructor(private readonly helper: Helper) {}
  canActivate(context: ExecutionContext): boolean {
    log.push(
      `guard ${this.helper.name} ${context.getType()} ${isOutboxContext(context)} ${context.getHandler().name}`,
    );
    return context.getArgByIndex<{ refused?: boolean }>(0).refused !== true;
  }
}

@Injectable()
class Around implements NestInterceptor {
  constructor(private readonly manager: EntityManager) {}
  async intercept(_context: ExecutionContext, next: CallHandler) {
    // Inside the handler's transaction, as the handler is.
    await this.manager.query("INSERT INTO effect (name) VALUES ('interceptor')");
    return next.handle().pipe(tap(() => log.push('after')));
  }
}

class Upper implements PipeTransform {
  transform(value: unknown, { type, metatype }: { type: string; metatype?: { name: string } }): unknown {
    log.push(`pipe ${type} ${metatype?.name}`);
    return type === 'body' && typeof value === 'object' ? { ...value, piped: true } : value;
  }
}

class Replaced extends Error {}

@Catch(RangeError)
class Replacing implements ExceptionFilter {
  catch(error: RangeError, host: ArgumentsHost): never {
    throw new Replaced(`${host.getType()}: ${error.message}`);
  }
}

@Catch(SyntaxError)
class Swallowing implements ExceptionFilter {
  catch(): unknown {
    log.push('swallowed');
    return { all: 'fine' };
  }
}

const Tenant = createParamDecorator(
  (_data: unknown, context: ExecutionContext) =>
    context.getArgByIndex<OutboxHandlerContext>(1).headers['tenant'],
);

class Dto {
  name = '';
}

abstract class Handlers {
  @OutboxHandler('positional')
  positional(payload: Dto, context: OutboxHandlerContext): void {
    log.push(`positional ${JSON.stringify(payload)} ${context.attempt}`);
  }

  @UseGuards(Guard)
  @UseInterceptors(Around)
  @OutboxHandler('decorated')
  @UsePipes(Upper)
  decorated(
    @OutboxContext() context: OutboxHandlerContext,
    @OutboxPayload('n', ParseIntPipe) n: number,
    @Tenant() tenant: string,
    @OutboxPayload() payload: Dto,
  ): void {
    log.push(`decorated ${context.handler} ${typeof n} ${n} ${tenant} ${JSON.stringify(payload)}`);
  }

  @OutboxHandler('filtered')
  @UseFilters(Replacing, Swallowing)
  filtered(payload: { error: string }): void {
    throw payload.error === 'RangeError' ? new RangeError('too far') : new SyntaxError('bad');
  }
}

@Injectable()
class ProviderHandlers extends Handlers {}

@Controller()
class ControllerHandlers extends Handlers {}

@Module({ providers: [Helper, Guard, Around, ProviderHandlers], exports: [ProviderHandlers] })
class ProviderModule {}

@Module({ providers: [Helper, Guard, Around], controllers: [ControllerHandlers] })
class ControllerModule {}

let setup: LocalSetup;
beforeAll(async () => (setup = await LocalSetup.open()));
beforeEach(() => void (log.length = 0));
afterEach(() => setup.reset());
afterAll(() => setup.close());

const off = { outbox: { dispatch: 'off', backoff: { initialDelay: '1h' } } } as const;

async function run(app: LocalApp, handler: string, payload: unknown, headers?: Record<string, unknown>) {
  await app.enqueue(handler, payload, headers && { headers });
  return app.dispatcher.runOnce();
}

describe.each<[string, Type]>([
  ['a provider', ProviderModule],
  ['a controller', ControllerModule],
])('a handler on %s', (_, handlers) => {
  let app: LocalApp;
  beforeEach(async () => (app = await setup.start({ ...off, imports: [handlers] })));

  it('has guards, interceptors, pipes and parameter decorators, in whatever order they stand', async () => {
    expect(await run(app, 'decorated', { n: '7', name: 'a' }, { tenant: 'x' })).toMatchObject({ sent: 1 });
    expect(log).toEqual([
      'guard helper outbox true decorated',
      expect.stringMatching(/^pipe /),
      expect.stringMatching(/^pipe /),
      expect.stringMatching(/^pipe /),
      expect.stringMatching(/^pipe /),
      'decorated decorated number 7 x {"n":"7","name":"a","piped":true}',
      'after',
    ]);
    expect(log).toContain('pipe body Dto');
    expect(await setup.effects()).toEqual(['interceptor']);
  });

  it('that a guard refuses has failed', async () => {
    expect(await run(app, 'decorated', { n: '7', refused: true })).toMatchObject({ sent: 0, failed: 1 });
    expect(await setup.effects()).toEqual([]);
    expect((await setup.rows())[0]?.last_error).toContain('Forbidden');
  });

  it('that a pipe refuses has failed', async () => {
    expect(await run(app, 'decorated', { n: 'x' })).toMatchObject({ failed: 1 });
    expect(await setup.effects()).toEqual([]);
  });

  it('without parameter decorators gets payload and context', async () => {
    expect(await run(app, 'positional', { name: 'a' })).toMatchObject({ sent: 1 });
    expect(log).toEqual(['positional {"name":"a"} 1']);
  });

  it('a filter can replace an error, but not turn a failure into a success', async () => {
    expect(await run(app, 'filtered', { error: 'RangeError' })).toMatchObject({ failed: 1 });
    expect((await setup.rows())[0]?.last_error).toContain('outbox: too far');
    expect(await run(app, 'filtered', { error: 'SyntaxError' })).toMatchObject({ failed: 1, sent: 0 });
    expect(log).toEqual(['swallowed']);
    expect((await setup.rows())[1]?.last_error).toContain('SyntaxError: bad');
  });
});

it('global guards and pipes work on local handlers too', async () => {
  @Injectable()
  class Global implements CanActivate {
    canActivate = (context: ExecutionContext): boolean =>
      isOutboxContext(context) && !!log.push('global guard');
  }
  const providers: Provider[] = [
    ProviderHandlers,
    Helper,
    { provide: APP_GUARD, useClass: Global },
    { provide: APP_PIPE, useClass: Upper },
  ];
  const app = await setup.start({ ...off, providers });
  expect(await run(app, 'positional', { name: 'a' })).toMatchObject({ sent: 1 });
  expect(log).toContain('global guard');
  expect(log).toContain('pipe body Dto');
  expect(log).toContain('positional {"name":"a","piped":true} 1');
});

describe('the application does not start with', () => {
  async function refusal(...providers: Provider[]): Promise<OutboxHandlerError> {
    const error: unknown = await setup.start({ providers }).then(
      () => new Error('It started'),
      (thrown: unknown) => thrown,
    );
    expect(error).toBeInstanceOf(OutboxHandlerError);
    return error as OutboxHandlerError;
  }

  class Other {
    @OutboxHandler('positional')
    other(): void {}
  }

  it('two handlers of one name', async () => {
    const error = await refusal(ProviderHandlers, Helper, Other);
    expect(error.problem).toBe('duplicate-name');
    expect(error.message).toContain('"positional"');
    expect(error.message).toContain('ProviderHandlers.positional');
    expect(error.message).toContain('Other.other');
  });

  it('a request-scoped handler, or one with a request-scoped guard', async () => {
    @Injectable({ scope: Scope.REQUEST })
    class Scoped {
      @OutboxHandler('scoped')
      handle(): void {}
    }
    @Injectable({ scope: Scope.REQUEST })
    class ScopedGuard implements CanActivate {
      canActivate = () => true;
    }
    class Guarded {
      @UseGuards(ScopedGuard)
      @OutboxHandler('guarded')
      handle(): void {}
    }
    expect((await refusal(Scoped)).problem).toBe('request-scope');
    expect((await refusal(Guarded)).problem).toBe('request-scope');
  });

  it('a handler for a data source that is not registered', async () => {
    class Elsewhere {
      @OutboxHandler('elsewhere', { dataSource: 'billing' })
      handle(): void {}
    }
    const error = await refusal(Elsewhere);
    expect(error.problem).toBe('data-source');
    expect(error.message).toContain('"billing"');
  });
});

it('one instance under two tokens is one handler', async () => {
  const providers = [Helper, ProviderHandlers, { provide: 'alias', useExisting: ProviderHandlers }];
  const app = await setup.start({ ...off, providers });
  expect(await run(app, 'positional', {})).toMatchObject({ sent: 1 });
});

describe('@OutboxHandler()', () => {
  const bad: [string, unknown, object, string][] = [
    ['an empty name', '', {}, "''"],
    ['a blank name', '  ', {}, "'  '"],
    ['a name of 256 bytes', 'ä'.repeat(128), {}, 'ä'],
    ['no name', undefined, {}, 'undefined'],
    ['an unknown option', 'x', { transactionl: false }, 'transactionl'],
    ['a concurrency of 0', 'x', { concurrency: 0 }, 'concurrency'],
    ['a timeout that is none', 'x', { timeout: 'soon' }, 'timeout'],
    ['a retry that is none', 'x', { retry: { maxAttempts: 0 } }, 'retry.maxAttempts'],
    [
      'an isolation level without a transaction',
      'x',
      { transactional: false, isolationLevel: 'SERIALIZABLE' },
      'isolationLevel',
    ],
  ];
  it.each(bad)('refuses %s', (_, name, options, text) => {
    const decorate = () => {
      class Bad {
        @OutboxHandler(name as string, options)
        handle(): void {}
      }
      return Bad;
    };
    expect(decorate).toThrow(InvalidOptionError);
    expect(decorate).toThrow(text);
    expect(decorate).toThrow('Bad.handle');
  });

  it('leaves the method as it is, and the metadata of others', () => {
    const handle = () => undefined;
    Reflect.defineMetadata('mine', 1, handle);
    const descriptor = { value: handle };
    class Target {}
    OutboxHandler('x')(Target.prototype, 'handle', descriptor);
    expect(descriptor.value).toBe(handle);
    expect(Reflect.getMetadata('mine', handle)).toBe(1);
  });
});
