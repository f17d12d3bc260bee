import { getDataSourceToken } from '@nestjs/typeorm';
import type { DataSource } from 'typeorm';
import { addTransactionalDataSource, StorageDriver } from 'typeorm-transactional';
import { describeTypeormTransactional } from './typeorm-transactional.suite';

describe('Transactions of typeorm-transactional, set up after the application has started', () => {
  describeTypeormTransactional(
    {
      started(app) {
        for (const name of ['default', 'billing']) {
          addTransactionalDataSource({ name, dataSource: app.get<DataSource>(getDataSourceToken(name)) });
        }
      },
    },
    StorageDriver.ASYNC_LOCAL_STORAGE,
  );
});
