import { DataSource } from 'typeorm';
import { addTransactionalDataSource, StorageDriver } from 'typeorm-transactional';
import { describeTypeormTransactional } from './typeorm-transactional.suite';

describe('Transactions of typeorm-transactional, set up before the module', () => {
  describeTypeormTransactional(
    {
      createDataSource: (options, name) =>
        addTransactionalDataSource({ name, dataSource: new DataSource(options) }),
    },
    StorageDriver.CLS_HOOKED,
  );
});
