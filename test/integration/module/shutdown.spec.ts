import { Client } from 'pg';
import { startAppProcess, type AppProcess } from '../../support/app-process';
import { startTcpProxy, type TcpProxy } from '../../support/tcp-proxy';
import { openTestBroker, type TestBroker } from '../../support/test-broker';
import { createTestDatabase, type TestDatabase } from '../../support/test-database';
import { waitFor } from '../../support/wait-for';

const FIXTURE = 'test/integration/module/fixtures/shutdown-app.ts';

let database: TestDatabase;
let broker: TestBroker;
let proxy: TcpProxy;
let app: AppProcess;
let queue: string;
let target: string;

beforeEach(async () => {
  [database, broker] = await Promise.all([createTestDatabase(), openTestBroker()]);
  proxy = await startTcpProxy(broker.url);
  await database.query('CREATE TABLE effect (n int)');
  queue = await broker.assertQueue('in');
  target = await broker.assertQueue('out');
});
afterEach(async () => {
  await app?.close();
  await Promise.all([database.close(), broker.close(), proxy.close()]);
});

function start(env: Record<string, string> = {}): AppProcess {
  app = startAppProcess(FIXTURE, {
    env: { DATABASE: database.url, BROKER: proxy.through(broker.url), QUEUE: queue, TARGET: target, ...env },
  });
  return app;
}

const rows = () =>
  database.query<{ status: string; attempts: number; claim_token: string | null }>(
    'SELECT status, attempts, claim_token FROM outbox_message',
  );
const count = async (sql: string) => Number((await database.query<{ n: string }>(sql))[0]?.n);
const freeLocks = () =>
  count("SELECT count(*) n FROM shedlock WHERE lock_until > timezone('utc', clock_timestamp())").then(
    (held) => held === 0,
  );

test('G12, C38: SIGTERM in the middle of a handler and of a batch: both finish or are handed back, exit code 0', async () => {
  start();
  await app.waitFor('ready');
  await broker.sendToQueue(queue, { n: 1 }, { messageId: 'slow' });
  await app.waitFor('handling');
  // Five at a time, and each confirm takes a while: the signal comes in the middle of the batch.
  proxy.delay(100);
  await app.request('publish', 500);
  await waitFor('a batch under way', async () => (await broker.queueDepth(target)).ready > 0);

  process.kill(app.pid, 'SIGTERM');
  await waitFor('the dispatcher to stop', freeLocks);
  await waitFor(
    'the consumer to stop',
    async () => (await broker.channel.checkQueue(queue)).consumerCount === 0,
  );
  // A message that comes now stays in the broker.
  await broker.sendToQueue(queue, { n: 2 }, { messageId: 'late' });
  await app.request('let go');

  expect(await app.exited).toEqual({ code: 0, signal: null });
  expect(app.output()).not.toMatch(/not connected|already released|Connection terminated|Unhandled/i);
  expect(await database.query('SELECT n FROM effect')).toEqual([{ n: 1 }]);
  expect(await database.query('SELECT message_id, status FROM inbox_message')).toEqual([
    { message_id: 'slow', status: 'done' },
  ]);
  // Only the late one is left: the slow one was acked.
  const [left, ...more] = await broker.drain(queue);
  expect(left?.properties.messageId).toBe('late');
  expect(more).toEqual([]);
  const after = await rows();
  const sent = after.filter((row) => row.status === 'sent').length;
  expect(sent).toBeGreaterThanOrEqual(1);
  expect(sent).toBeLessThan(500);
  expect((await broker.drain(target)).length).toBe(sent);
  for (const row of after) expect(row).toMatchObject({ attempts: 0, claim_token: null });
  expect(await freeLocks()).toBe(true);
});

test('G12: what has not finished at the deadline is rolled back and handed back', async () => {
  start({ SHUTDOWN_TIMEOUT: '300ms' });
  await app.waitFor('ready');
  await broker.sendToQueue(queue, { n: 1 }, { messageId: 'hangs' });
  await app.waitFor('handling');
  process.kill(app.pid, 'SIGTERM');
  expect(await app.exited).toEqual({ code: 0, signal: null });
  expect(await database.query('SELECT n FROM effect')).toEqual([]);
  const [message] = await broker.drain(queue);
  expect(message?.properties.messageId).toBe('hangs');
  expect(message?.fields.redelivered).toBe(true);

  // The next process handles it, once.
  await broker.sendToQueue(queue, { n: 1 }, { messageId: 'hangs' });
  start();
  await app.waitFor('handling');
  await app.request('let go');
  await broker.drained(queue);
  expect(await database.query('SELECT n FROM effect')).toEqual([{ n: 1 }]);
});

test('G12: a copy that waits for another process at its row does not keep the process from ending', async () => {
  start({ SHUTDOWN_TIMEOUT: '300ms' });
  await app.waitFor('ready');
  // Another process that is in the middle of the same message, as far as the table shows.
  const other = new Client(database.url);
  await other.connect();
  try {
    await other.query('BEGIN');
    await other.query(
      "INSERT INTO inbox_message (consumer, message_id, status) VALUES ('consumer', 'copied', 'done')",
    );
    await broker.sendToQueue(queue, { n: 1 }, { messageId: 'copied' });
    await waitFor('the copy to wait', () =>
      count(
        "SELECT count(*) n FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
      ),
    );
    process.kill(app.pid, 'SIGTERM');
    expect(await app.exited).toEqual({ code: 0, signal: null });
  } finally {
    await other.end();
  }
  const [message] = await broker.drain(queue);
  expect(message?.properties.messageId).toBe('copied');
});

test('C38: the leader that stops lets another lead at its next poll', async () => {
  const first = start();
  await first.waitFor('ready');
  await waitFor('a leader', async () => !(await freeLocks()));
  const second = start();
  await second.waitFor('ready');
  process.kill(first.pid, 'SIGTERM');
  await first.exited;
  await second.request('publish', 1);
  await waitFor('the message', async () => (await broker.queueDepth(target)).ready === 1);
  expect(await count("SELECT count(*) n FROM shedlock WHERE name = 'outbox-dispatcher' AND fence > 1")).toBe(
    1,
  );
});

test('C38: closing twice is closing once', async () => {
  start();
  await app.waitFor('ready');
  await app.request('close twice');
  expect(await freeLocks()).toBe(true);
  expect(await app.kill('SIGTERM')).toMatchObject({});
  expect(app.output()).not.toMatch(/error/i);
});

test('C38: SIGTERM during the start ends the process', async () => {
  // The broker does not answer, so the application is in the middle of its start.
  proxy.hold();
  start();
  await app.waitFor('booting');
  await waitFor('a connection attempt', () => proxy.connections() > 0);
  process.kill(app.pid, 'SIGTERM');
  const { code, signal } = await app.exited;
  expect(code === 0 || signal === 'SIGTERM').toBe(true);
});
