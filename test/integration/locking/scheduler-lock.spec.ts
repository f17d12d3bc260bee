import 'reflect-metadata';
import { setTimeout as delay } from 'node:timers/promises';
import {
  Injectable,
  Module,
  Scope,
  SetMetadata,
  type INestApplicationContext,
  type Type,
} from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Cron, Interval, ScheduleModule, Timeout } from '@nestjs/schedule';
import { TypeOrmModule } from '@nestjs/typeorm';
import {
  InboxOutboxModule,
  LockService,
  NotLockedError,
  SchedulerLock,
  SchedulerLockError,
  type LockContext,
} from '../../../lib';
import { createTestDatabase, type TestDatabase } from '../../support/test-database';
import { waitFor } from '../../support/wait-for';
import { RecordingLogger } from '../outbox-dispatch/outbox-table';
import { lockRow } from './lock-row';

describe('@SchedulerLock()', () => {
  let database: TestDatabase;
  const apps: INestApplicationContext[] = [];
  let logger = new RecordingLogger();
  beforeAll(async () => {
    database = await createTestDatabase({ prefix: 'scheduler' });
    // Creates the tables: several applications at once would get into each other's way.
    await start([]);
  });
  beforeEach(() => (logger = new RecordingLogger()));
  afterEach(async () => {
    await Promise.all(apps.splice(0).map((app) => app.close()));
    await database.query('TRUNCATE shedlock').catch(() => undefined);
  });
  afterAll(() => database.close());

  const schedule = () => ScheduleModule.forRoot();
  const inboxOutbox = () => InboxOutboxModule.forRoot({ outbox: { dispatch: 'off' } });

  /** @param imports in this order, since it decides whose `onModuleInit` runs first */
  async function start(
    providers: Type[],
    imports = [inboxOutbox, schedule],
  ): Promise<INestApplicationContext> {
    @Module({
      imports: [
        TypeOrmModule.forRoot({
          type: 'postgres',
          url: database.url,
          autoLoadEntities: true,
          synchronize: true,
        }),
        ...imports.map((each) => each()),
      ],
      providers,
    })
    class App {}
    const app = await NestFactory.createApplicationContext(App, { logger, abortOnError: false });
    apps.push(app);
    return app;
  }

  const held = (name: string) => lockRow(database, name);

  it.each([
    ['our module first', [inboxOutbox, schedule]],
    ['@nestjs/schedule first', [schedule, inboxOutbox]],
  ])('above and below @Cron, @Interval and @Timeout, with metadata kept: %s', async (_, imports) => {
    const ran = new Map<string, LockContext | undefined>();

    @Injectable()
    class Jobs {
      constructor(private readonly locks: LockService) {}

      @Cron('* * * * * *', { name: 'cron' })
      @SetMetadata('above', 1)
      @SchedulerLock({ name: 'cron', lockAtMostFor: '1m' })
      @SetMetadata('below', 2)
      async cron(lock?: LockContext) {
        ran.set('cron', lock);
        expect(this.locks.assertLocked('cron')).toBe(lock);
      }

      @SchedulerLock({ name: 'interval', lockAtMostFor: '1m' })
      @Interval('interval', 50)
      async interval(lock?: LockContext) {
        this.locks.assertLocked();
        ran.set('interval', lock);
      }

      @SchedulerLock({ name: 'timeout', lockAtMostFor: '1m', lockAtLeastFor: '30s' })
      @Timeout('timeout', 50)
      timeout(lock?: LockContext) {
        ran.set('timeout', lock);
      }
    }

    await start([Jobs], imports);
    await waitFor('all three', () => ran.size === 3);
    for (const [name, lock] of ran) {
      expect(lock).toMatchObject({ name });
      expect(lock!.fence).toBeGreaterThanOrEqual(1n);
      expect(lock!.signal.aborted).toBe(false);
    }
    await waitFor('the unlock', async () => (await held('cron'))?.held === false);
    expect(await held('timeout')).toMatchObject({ held: true });
    expect(Reflect.getMetadata('above', Jobs.prototype.cron)).toBe(1);
    expect(Reflect.getMetadata('below', Jobs.prototype.cron)).toBe(2);
    expect(Jobs.prototype.cron.name).toBe('cron');
    expect(logger.lines.filter((line) => line.startsWith('error'))).toEqual([]);
  });

  it('of three applications one runs it; the others skip without a word', async () => {
    const runs: bigint[] = [];

    @Injectable()
    class Nightly {
      @Timeout(100)
      @SchedulerLock({ name: 'nightly', lockAtMostFor: '1m', lockAtLeastFor: '30s' })
      async report({ fence }: LockContext) {
        runs.push(fence);
        await delay(50);
      }
    }

    await Promise.all([start([Nightly]), start([Nightly]), start([Nightly])]);
    await waitFor('the run', () => runs.length);
    const locks = apps[0]!.get(LockService);
    await waitFor('the job to end', async () => (await held('nightly'))?.held);
    expect(await locks.tryLock({ name: 'nightly', lockAtMostFor: '1m' })).toBeUndefined();
    await delay(300);
    expect(runs).toEqual([1n]);
    expect(logger.lines.filter((line) => /^error|Lock /.test(line))).toEqual([]);
  });

  it('two jobs that share a name on purpose exclude each other', async () => {
    let running = 0;
    let most = 0;
    const ran = new Set<string>();
    const work = async (name: string) => {
      most = Math.max(most, ++running);
      await delay(20);
      running--;
      ran.add(name);
    };

    @Injectable()
    class Jobs {
      @Interval(13)
      @SchedulerLock({ name: 'shared', lockAtMostFor: '1m' })
      one() {
        return work('one');
      }

      @Interval(17)
      @SchedulerLock({ name: 'shared', lockAtMostFor: '1m' })
      two() {
        return work('two');
      }
    }

    await start([Jobs]);
    await waitFor('both', () => ran.size === 2);
    expect(most).toBe(1);
  });

  it('without our module the job does not run unprotected, and says why', async () => {
    let ran = false;

    @Injectable()
    class Jobs {
      @Timeout(20)
      @SchedulerLock({ name: 'job', lockAtMostFor: '1m' })
      job() {
        ran = true;
      }
    }

    await start([Jobs], [schedule]);
    await waitFor('the refusal', () =>
      logger.count(/SchedulerLockError.*Jobs\.job.*did not run.*Import InboxOutboxModule/),
    );
    expect(ran).toBe(false);
    await expect(new Jobs().job()).rejects.toThrow(SchedulerLockError);
  });

  it('a lock table that is gone is an error of the job with its remedy, not a skip', async () => {
    let ran = false;

    @Injectable()
    class Jobs {
      @Interval(200)
      @SchedulerLock({ name: 'job', lockAtMostFor: '1m' })
      job() {
        ran = true;
      }
    }

    const app = await start([Jobs]);
    await waitFor('a run', () => ran);
    await database.query('ALTER TABLE shedlock RENAME TO elsewhere');
    try {
      await waitFor('the error', () =>
        logger.count(/InboxOutboxSchemaError.*the lock table.*does not exist.*Remedy/),
      );
      await expect(app.get(LockService).tryLock({ name: 'x', lockAtMostFor: 1_000 })).rejects.toThrow(
        /lock table .* does not exist.*sql\/postgres\.sql/,
      );
    } finally {
      await database.query('ALTER TABLE elsewhere RENAME TO shedlock');
    }
  });

  describe('refuses to start, and names class and method:', () => {
    class Plain {
      @SchedulerLock({ name: 'job', lockAtMostFor: '1m' })
      job() {}
    }
    class Elsewhere {
      @Cron('0 0 3 * * *')
      @SchedulerLock({ name: 'job', lockAtMostFor: '1m', dataSource: 'nowhere' })
      job() {}
    }
    class Scoped {
      @SchedulerLock({ name: 'job', lockAtMostFor: '1m' })
      @Cron('0 0 3 * * *')
      job() {}
    }
    Injectable()(Plain);
    Injectable()(Elsewhere);
    Injectable({ scope: Scope.REQUEST })(Scoped);

    it.each([
      ['a method that is no scheduled job', Plain, /Plain\.job: it is no scheduled job/],
      ['an unknown data source', Elsewhere, /Elsewhere\.job: .*"nowhere".*"default"/],
      ['a request-scoped provider', Scoped, /Scoped\.job: its class is request-scoped/],
    ])('%s', async (_, provider, message) => {
      const started = start([provider]);
      await expect(started).rejects.toThrow(SchedulerLockError);
      await expect(started).rejects.toThrow(message);
    });
  });

  it('at a shutdown a job that runs is told, waited for, and unlocked while the database is open', async () => {
    let told = false;
    let running = false;

    @Injectable()
    class Jobs {
      @Timeout(20)
      @SchedulerLock({ name: 'job', lockAtMostFor: '1m', keepAlive: true })
      async job({ signal }: LockContext) {
        running = true;
        await new Promise((resolve) => signal.addEventListener('abort', resolve));
        told = true;
      }
    }

    const app = await start([Jobs]);
    const locks = app.get(LockService);
    await waitFor('the job', () => running);
    await app.close();
    expect(told).toBe(true);
    expect(await held('job')).toMatchObject({ held: false });
    expect(await locks.tryLock({ name: 'job', lockAtMostFor: '1m' })).toBeUndefined();
    expect(logger.count(/warn/)).toBe(0);
  });

  it('work that is not awaited is not under the lock any more', async () => {
    const locks = (await start([])).get(LockService);
    let straggler: Promise<unknown> = Promise.resolve();
    const { executed, result } = await locks.execute({ name: 'outer', lockAtMostFor: '1m' }, async (lock) => {
      // As in ShedLock: inside a run under the same lock the task just runs.
      const inner = await locks.execute({ name: 'outer', lockAtMostFor: '1m' }, (same) => same === lock);
      straggler = delay(20).then(() => locks.assertLocked());
      straggler.catch(() => undefined);
      return inner.result;
    });
    expect([executed, result]).toEqual([true, true]);
    await expect(straggler).rejects.toThrow(NotLockedError);
    expect(() => locks.assertLocked('outer')).toThrow(/must run under the lock outer/);
    await expect(
      locks.execute({ name: 'outer', lockAtMostFor: '1m' }, () => Promise.reject(new Error('on purpose'))),
    ).rejects.toThrow('on purpose');
    expect(await held('outer')).toMatchObject({ held: false });
  });
});
