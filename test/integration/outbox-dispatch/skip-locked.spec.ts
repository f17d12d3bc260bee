import { Client } from 'pg';
import { verifySchema } from '../../../lib/persistence/verify-schema';
import { createTables } from '../../../lib/persistence/tables';
import { waitFor } from '../../support/wait-for';
import { DispatchSetup } from './dispatch-setup';

/** Makes the real server refuse the clause, as one does that does not know it: with a syntax error. */
function withoutSkipLocked(): jest.SpyInstance {
  const { query } = Client.prototype as unknown as { query: (...args: unknown[]) => unknown };
  return jest.spyOn(Client.prototype, 'query').mockImplementation(function (
    this: Client,
    ...args: unknown[]
  ) {
    const [sql, ...rest] = args;
    const older = typeof sql === 'string' ? sql.replaceAll('SKIP LOCKED', 'SKIP LOCKS') : sql;
    return query.call(this, older, ...rest) as never;
  });
}

describe('C28: a server without SKIP LOCKED', () => {
  let setup: DispatchSetup;
  let exchange: string;
  beforeAll(async () => {
    setup = await DispatchSetup.open();
    exchange = await setup.broker.assertExchange('ex');
  });
  afterEach(async () => {
    jest.restoreAllMocks();
    await setup.reset();
  });
  afterAll(() => setup?.close());

  it('C28: is told of as an error that names the clause and the version, and is no quiet idling', async () => {
    const queue = await setup.queue('q', exchange);
    await setup.table.publish({ exchange, routingKey: 'q' });
    const refusing = withoutSkipLocked();
    const dispatcher = setup.dispatcher();
    await expect(dispatcher.runOnce()).rejects.toMatchObject({ name: 'ServerTooOldError' });
    dispatcher.start();
    await waitFor('the error to be logged', () => setup.logger.count(/^error Dispatching failed/) === 1);
    expect(setup.logger.lines.join()).toMatch(/PostgreSQL 13 or newer.*SKIP LOCKED.*syntax error/);
    expect((await setup.rows()).map(({ status, attempts }) => [status, attempts])).toEqual([['ready', 0]]);
    // With a server that can, it goes on by itself.
    refusing.mockRestore();
    await waitFor('the message to be sent', async () => (await setup.rows()).length === 0);
    expect(await setup.broker.drain(queue)).toHaveLength(1);
  });

  it('C28: keeps the application from starting when its version is too old', async () => {
    const { dataSource, dialect } = setup.table;
    const old = {
      ...dialect,
      serverVersion: () => Promise.resolve({ text: 'PostgreSQL 9.4', supported: false }),
    };
    await expect(verifySchema(dataSource, createTables(), old)).rejects.toThrow(
      /PostgreSQL 13 or newer.*SKIP LOCKED.*the server is PostgreSQL 9\.4/,
    );
  });

  it('C28: no other error is taken for it', async () => {
    await setup.database.query('ALTER TABLE outbox_message RENAME COLUMN claim_token TO something');
    await setup.table.publish({ exchange, routingKey: 'q' });
    await expect(setup.dispatcher().runOnce()).rejects.toThrow(/claim_token.* does not exist/);
    await setup.database.query('ALTER TABLE outbox_message RENAME COLUMN something TO claim_token');
  });
});
