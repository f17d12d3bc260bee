import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { rmSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { Client } from 'pg';
import { PrivateDatabase, startPrivateDatabase } from '../../support/private-database';
import { createTestDatabase } from '../../support/test-database';
import { startTcpProxy } from '../../support/tcp-proxy';
import { waitFor } from '../../support/wait-for';

describe('startPrivateDatabase', () => {
  let server: PrivateDatabase;
  beforeAll(async () => {
    server = await startPrivateDatabase({ config: { max_connections: 17 } });
  });
  afterAll(() => server?.close());

  it('runs with the settings of the test', async () => {
    const database = await createTestDatabase({ serverUrl: server.url });
    expect(database.serverVersion).toBe(server.version);
    expect(await database.query('SHOW max_connections')).toEqual([{ max_connections: '17' }]);
    await database.close();
  });

  it.each([
    ['a restart', () => server.restart()],
    ['an immediate stop', () => server.stop('immediate').then(() => server.start())],
    ['a crash', () => server.kill().then(() => server.start())],
  ])('ends sessions and keeps what was committed over %s', async (_, disturb) => {
    const database = await createTestDatabase({ serverUrl: server.url });
    await database.query('CREATE TABLE kept (id int); INSERT INTO kept VALUES (1)');
    const session = new Client({ connectionString: database.url });
    const lost = new Promise((resolve) => session.on('error', resolve));
    await session.connect();
    await session.query('BEGIN');
    await session.query('INSERT INTO kept VALUES (2)');

    await disturb();
    await lost;
    expect(await waitFor('the rows', () => database.query('SELECT id FROM kept'))).toEqual([{ id: 1 }]);
    await database.close();
  });

  it('refuses while it is stopped', async () => {
    await server.stop();
    await expect(new Client({ connectionString: server.url }).connect()).rejects.toThrow('ECONNREFUSED');
    await server.start();
    const client = new Client({ connectionString: server.url });
    await client.connect();
    await client.end();
  });

  it('shows the log when it cannot start', async () => {
    await expect(startPrivateDatabase({ config: { max_connections: 'many' } })).rejects.toThrow(
      /ended while starting:[^]*max_connections/,
    );
  });

  it('a commit whose answer is held back has happened all the same', async () => {
    const database = await createTestDatabase({ serverUrl: server.url });
    await database.query('CREATE TABLE doubt (id int)');
    const proxy = await startTcpProxy(server.url);
    const session = new Client({ connectionString: proxy.through(database.url) });
    session.on('error', () => undefined);
    await session.connect();
    await session.query('BEGIN');
    await session.query('INSERT INTO doubt VALUES (1)');
    proxy.hold('down');
    const commit = session.query('COMMIT').then(
      () => 'answered',
      () => 'lost',
    );
    await waitFor('the answer to reach the proxy', () => proxy.waiting() > 0);
    proxy.cut();
    expect(await commit).toBe('lost');
    expect(await database.query('SELECT id FROM doubt')).toEqual([{ id: 1 }]);
    await proxy.close();
    await database.close();
  });

  it('does not outlive a test process that is killed', async () => {
    const support = join(__dirname, '../../support');
    const args = [
      '-r',
      join(support, 'register-typescript.cjs'),
      join(support, 'fixtures/careless-server-test.ts'),
    ];
    const careless = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
    const [url] = (await once(careless.stdout, 'data')) as [Buffer];
    const client = new Client({ connectionString: url.toString().trim() });
    const lost = new Promise((resolve) => client.on('error', resolve));
    await client.connect();
    const { rows } = await client.query<{ folder: string }>(
      `SELECT current_setting('data_directory') AS folder`,
    );

    careless.kill('SIGKILL');
    await lost;
    // Its folder stays when nobody is there to remove it; this test can.
    const folder = dirname(rows[0]?.folder ?? '');
    expect(basename(folder)).toMatch(/^private-database-/);
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  });
});
