import { EventSubscriber, type BeforeQueryEvent, type EntitySubscriberInterface } from 'typeorm';
import { Client } from 'pg';
import { createBench, Note, type Bench } from './fixtures';

@EventSubscriber()
class QuerySubscriber implements EntitySubscriberInterface {
  static before: ((event: BeforeQueryEvent) => Promise<unknown> | undefined) | undefined;
  beforeQuery = (event: BeforeQueryEvent) => QuerySubscriber.before?.(event) as Promise<void> | undefined;
}

describe('one statement at a time on the connection of a transaction', () => {
  let bench: Bench;
  const warnings: Error[] = [];
  const onWarning = (warning: Error) => void warnings.push(warning);
  const notes = () => bench.dataSource.getRepository(Note);

  beforeAll(async () => {
    process.on('warning', onWarning);
    bench = await createBench({ subscribers: [QuerySubscriber], poolSize: 2 });
  });
  afterAll(async () => {
    await bench?.close();
    process.off('warning', onWarning);
  });
  beforeEach(() => bench.clear());
  afterEach(() => {
    QuerySubscriber.before = undefined;
    jest.restoreAllMocks();
  });

  /** How many statements were on their way at once, counted at pg's client. */
  function watchClients() {
    const busy = new Map<Client, number>();
    const most = { statements: 0 };
    const original = Client.prototype.query as (...args: unknown[]) => unknown;
    jest.spyOn(Client.prototype, 'query').mockImplementation(function (this: Client, ...args: unknown[]) {
      const now = (busy.get(this) ?? 0) + 1;
      busy.set(this, now);
      most.statements = Math.max(most.statements, now);
      const result = original.apply(this, args);
      const done = () => void busy.set(this, busy.get(this)! - 1);
      if (result instanceof Promise) result.then(done, done);
      else done();
      return result as never;
    });
    return most;
  }

  it('parallel work inside is sent one after the other, without a deprecation warning of pg', async () => {
    const most = watchClients();
    await bench.dataSource.transaction(async () => {
      await Promise.all([
        ...Array.from({ length: 10 }, (_, i) => notes().save({ text: `${i}` })),
        ...Array.from({ length: 10 }, () => notes().find()),
        bench.dataSource.query('SELECT 1'),
        bench.dataSource.transaction(() => notes().save({ text: 'nested' })),
        bench.dataSource.transaction(() =>
          Promise.all([notes().find(), notes().save({ text: 'nested too' })]),
        ),
      ]);
    });
    expect((await bench.texts()).length).toBe(12);
    expect(most.statements).toBe(1);
    await new Promise((resolve) => setImmediate(resolve)); // warnings are emitted on the next tick
    expect(warnings).toEqual([]);
  });

  it('a statement that fails does not hold up those behind it', async () => {
    const results = await bench.dataSource.transaction(async () => {
      const settled = await Promise.allSettled([
        bench.dataSource.transaction(() => bench.dataSource.query('SELECT 1/0')),
        bench.dataSource.transaction(() => bench.dataSource.query('SELECT 2 AS n')),
      ]);
      return settled.map((result) => result.status);
    });
    expect(results).toEqual(['rejected', 'fulfilled']);
  });

  it('a subscriber that queries inside beforeQuery does not wait for itself', async () => {
    const most = watchClients();
    let asked = 0;
    QuerySubscriber.before = (event) => {
      if (!event.query.startsWith('INSERT') || event.query.includes('audit')) return undefined;
      asked += 1;
      return Promise.all([
        event.queryRunner.query(`INSERT INTO notes (text) VALUES ('audit 1')`),
        notes().query(`INSERT INTO notes (text) VALUES ('audit 2')`),
      ]);
    };
    await bench.dataSource.transaction(() =>
      Promise.all([notes().insert({ text: 'a' }), notes().insert({ text: 'b' })]),
    );
    expect(asked).toBe(2);
    expect(await bench.texts()).toEqual(['audit 1', 'audit 2', 'a', 'audit 1', 'audit 2', 'b']);
    expect(most.statements).toBe(1);
  });

  it.each([1, 2])(
    'C04: with a pool of %i, twenty parallel transactions need one connection each and all end',
    async (size) => {
      const small = await createBench({ poolSize: size });
      try {
        await Promise.all(
          Array.from({ length: 20 }, (_, i) =>
            small.dataSource.transaction(async () => {
              await small.dataSource.getRepository(Note).save({ text: `${i}` });
              await small.dataSource.transaction(() => small.dataSource.getRepository(Note).find());
              await small.dataSource.createQueryBuilder(Note, 'n').getMany();
              await small.dataSource.query('SELECT 1');
            }),
          ),
        );
        expect((await small.texts()).length).toBe(20);
      } finally {
        await small.close();
      }
    },
  );
});

describe('without subscribers', () => {
  it('a query of somebody else around that of TypeORM may send statements of its own', async () => {
    const bench = await createBench({ poolSize: 2 });
    const runner = bench.dataSource.createQueryRunner();
    const prototype = Object.getPrototypeOf(runner) as { query: (...args: unknown[]) => Promise<unknown> };
    await runner.release();
    const original = prototype.query;
    let isInside = false;
    prototype.query = async function (this: typeof prototype, ...args) {
      if (!isInside) {
        isInside = true;
        await this.query("SELECT set_config('app.tenant', 'x', false)");
        isInside = false;
      }
      return original.apply(this, args);
    };
    try {
      await bench.dataSource.transaction((manager) => manager.save(Note, { text: 'for a tenant' }));
      expect(await bench.dataSource.getRepository(Note).count()).toBe(1);
    } finally {
      prototype.query = original;
      await bench.close();
    }
  });
});
