import {
  ClsPluginTransactional,
  Propagation,
  Transactional,
  TransactionHost,
} from '@nestjs-cls/transactional';
import { TransactionalAdapterTypeOrm } from '@nestjs-cls/transactional-adapter-typeorm';
import { getDataSourceToken } from '@nestjs/typeorm';
import { ClsModule, ClsServiceManager } from 'nestjs-cls';
import { Rollback } from '../fixtures';
import { Note, type Run, type Work } from './library-app';
import { describeLibrary } from './library-contract';

/** As applications use it. */
class Service {
  @Transactional()
  required<T>(work: Work<T>) {
    return work();
  }
  @Transactional('billing', Propagation.Required)
  requiredInBilling<T>(work: Work<T>) {
    return work();
  }
  @Transactional(Propagation.RequiresNew)
  requiresNew<T>(work: Work<T>) {
    return work();
  }
  @Transactional(Propagation.Mandatory)
  mandatory<T>(work: Work<T>) {
    return work();
  }
  @Transactional(Propagation.Never)
  never<T>(work: Work<T>) {
    return work();
  }
  @Transactional(Propagation.NotSupported)
  notSupported<T>(work: Work<T>) {
    return work();
  }
  @Transactional(Propagation.Nested)
  nested<T>(work: Work<T>) {
    return work();
  }
}

const service = new Service();
const required: Run = (work, name) =>
  name === 'billing' ? service.requiredInBilling(work) : service.required(work);

describe('Transactions of @nestjs-cls/transactional', () => {
  const plugin = (dataSource?: string) =>
    new ClsPluginTransactional({
      ...(dataSource ? { connectionName: dataSource } : {}),
      adapter: new TransactionalAdapterTypeOrm({ dataSourceToken: getDataSourceToken(dataSource) as string }),
    });
  const app = describeLibrary({
    name: '@nestjs-cls/transactional',
    imports: [ClsModule.forRoot({ plugins: [plugin(), plugin('billing')] })],
    required,
    requiresNew: (work) => service.requiresNew(work),
    mandatory: (work) => service.mandatory(work),
    never: (work) => service.never(work),
    notSupported: (work) => service.notSupported(work),
  });
  const host = () => TransactionHost.getInstance<TransactionalAdapterTypeOrm>();

  test('Nested is a savepoint', async () => {
    for (const outer of [required, <T>(work: Work<T>) => app().dataSource().transaction(work)]) {
      await app().reset();
      await outer(async () => {
        const pid = await app().write('outer');
        expect(await service.nested(() => app().write('nested'))).toBe(pid);
        const failing = service.nested(async () => {
          await app().write('taken back');
          await app().publish('taken back');
          throw new Rollback();
        });
        await expect(failing).rejects.toThrow(Rollback);
      });
      expect(await app().texts()).toEqual(['nested', 'outer']);
      expect(await app().databases.main.query('SELECT * FROM outbox_message')).toEqual([]);
    }
  });

  test("the host's tx joins in all combinations, and is outside where the rest is", async () => {
    const write = (text: string) => host().tx.getRepository(Note).save({ text });
    await required(() => write('in theirs'));
    await app()
      .dataSource()
      .transaction(() => write('in ours'));
    const failing = app()
      .dataSource()
      .transaction(async () => {
        await required(() => write('lost'));
        await app().transactions.outside(() => write('outside'));
        throw new Rollback();
      });
    await expect(failing).rejects.toThrow(Rollback);
    expect(await app().texts()).toEqual(['in ours', 'in theirs', 'outside']);
  });

  test('a CLS context that replaces the one around does not separate it from the transaction', async () => {
    const cls = ClsServiceManager.getClsService();
    const failing = app()
      .dataSource()
      .transaction(async () => {
        const pid = await app().write('a');
        await cls.run({ ifNested: 'override' }, async () => {
          expect(await app().write('b')).toBe(pid);
          expect(await required(() => app().write('c'))).toBe(pid);
        });
        throw new Rollback();
      });
    await expect(failing).rejects.toThrow(Rollback);
    expect(await app().texts()).toEqual([]);
  });

  test('values of the CLS context are there inside of transactions', async () => {
    const cls = ClsServiceManager.getClsService();
    await cls.run(async () => {
      cls.set('user', 'ada');
      await app()
        .dataSource()
        .transaction(() => {
          expect(cls.get('user' as never)).toBe('ada');
          return Promise.resolve();
        });
    });
  });
});
