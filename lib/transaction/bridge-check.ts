import { DataSource, EntityManager, type QueryRunner } from 'typeorm';
import { BridgeIncompatibleError } from './bridge-incompatible.error';
import { runInScope, runOutsideScopes } from './transaction-context';
import { TransactionScope } from './transaction-scope';
import { typeormVersion } from './typeorm-version';

/**
 * Tries out on a data source that everything made from it joins a scope. Nothing is sent to a database.
 *
 * @throws {BridgeIncompatibleError} naming what does not join
 */
export function checkBridge(dataSource: DataSource): void {
  const expect = (condition: boolean, failed: string) => {
    if (!condition) throw new BridgeIncompatibleError(typeormVersion(), failed);
  };
  expect(dataSource instanceof DataSource, 'the data source was made by another copy of typeorm');

  const sent: string[] = [];
  const runner = probeRunner(dataSource, sent);
  const scope = new TransactionScope(dataSource, runner, undefined, undefined, 0);
  const manager = dataSource.createEntityManager();
  const bound = new EntityManager(dataSource, probeRunner(dataSource, []));

  runInScope(scope, () => {
    expect(manager.queryRunner === runner, 'a manager does not take the runner of the active transaction');
    expect(bound.queryRunner !== runner, 'a manager with a runner of its own loses it');
    void dataSource.query(probe('data source'));
    void manager.query(probe('manager'));
    const builder = dataSource.createQueryBuilder() as unknown as { obtainQueryRunner?: () => QueryRunner };
    void builder.obtainQueryRunner?.().query(probe('query builder'));
  });
  for (const what of ['data source', 'manager', 'query builder']) {
    expect(sent.includes(probe(what)), `a statement of a ${what} does not join the active transaction`);
  }
  runOutsideScopes(() =>
    expect(manager.queryRunner === undefined, 'a manager keeps a runner outside of any transaction'),
  );
}

/** Seen by those who have wrapped query() to watch statements, so it says what it is. */
const probe = (what: string) => `/* nestjs-inbox-outbox: does a statement of a ${what} join? Not sent. */`;

function probeRunner(dataSource: DataSource, sent: string[]): QueryRunner {
  const query = (sql: string) => Promise.resolve(sent.push(sql));
  return { dataSource, connection: dataSource, isReleased: false, query } as unknown as QueryRunner;
}
