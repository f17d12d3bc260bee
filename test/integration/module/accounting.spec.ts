import { startAppProcess, type AppProcess } from '../../support/app-process';
import { openTestBroker, type TestBroker } from '../../support/test-broker';
import { createTestDatabase, type TestDatabase } from '../../support/test-database';
import { waitFor } from '../../support/wait-for';
import { fateOf } from './fixtures/fates';

const FIXTURE = 'test/integration/module/fixtures/accounting-app.ts';

let database: TestDatabase;
let broker: TestBroker;
let queue: string;
let deadLetters: string;
let app: AppProcess | undefined;

beforeEach(async () => {
  [database, broker] = await Promise.all([createTestDatabase(), openTestBroker()]);
  await database.query('CREATE TABLE business (n int); CREATE TABLE effect (n int)');
  deadLetters = await broker.assertQueue('dead');
  queue = await broker.assertQueue('in', { deadLetterExchange: '', deadLetterRoutingKey: deadLetters });
});
afterEach(async () => {
  await app?.close();
  await Promise.all([database.close(), broker.close()]);
});

async function start(armed: string[] = []): Promise<AppProcess> {
  const started = startAppProcess(FIXTURE, {
    armed,
    env: {
      DATABASE: database.url,
      BROKER: broker.url,
      QUEUE: queue,
      DEAD_LETTERS: deadLetters,
      MISSING: `${broker.prefix}missing`,
    },
  });
  app = started;
  await started.waitFor('ready', undefined, { timeout: 40_000 });
  return started;
}

const numbers = async (sql: string) =>
  (await database.query<{ n: number }>(sql)).map(({ n }) => n).sort((a, b) => a - b);
const openRows = async () =>
  Number(
    (
      await database.query<{ n: string }>(
        "SELECT count(*) n FROM outbox_message WHERE status IN ('ready', 'scheduled')",
      )
    )[0]?.n,
  );

test('G1: killed with SIGKILL before the commit, neither the row nor the message exists', async () => {
  const process = await start(['before the commit']);
  await expect(process.request('publish', 1)).rejects.toThrow();
  expect(await process.exited).toMatchObject({ signal: 'SIGKILL' });
  await start();
  // A later one has passed, so the first would have by now.
  await app!.request('publish', 2);
  await waitFor('the effect', async () => (await numbers('SELECT n FROM effect')).length > 0);
  expect(await numbers('SELECT n FROM business')).toEqual([2]);
  expect(await numbers('SELECT n FROM effect')).toEqual([2]);
});

test('G1: killed with SIGKILL after the commit, the message arrives and takes effect once', async () => {
  const process = await start(['after the commit']);
  await expect(process.request('publish', 1)).rejects.toThrow();
  expect(await process.exited).toMatchObject({ signal: 'SIGKILL' });
  await start();
  await waitFor('the effect', async () => (await numbers('SELECT n FROM effect')).length > 0);
  await broker.drained(queue);
  expect(await numbers('SELECT n FROM business')).toEqual([1]);
  expect(await numbers('SELECT n FROM effect')).toEqual([1]);
});

test('G11: whatever happens, every message is handled, or dead with a reason, or in the dead-letter queue with one', async () => {
  const all = Array.from({ length: 60 }, (_, n) => n);
  // Number 13 kills whoever handles it, so somebody has to start the process again. And it is killed at other times too.
  let publishing = true;
  let kills = 0;
  const pending = new Set(all);
  for (let life = 0; publishing; life++) {
    const process = await start();
    for (const n of [...pending]) {
      try {
        await process.request('publish', n);
        pending.delete(n);
      } catch (error) {
        if (fateOf(n) === 'rolled back' && /rolled back/.test(String(error))) pending.delete(n);
        // The process died in between: whether it was committed is what the table says.
        else if ((await numbers('SELECT n FROM business')).includes(n)) pending.delete(n);
        else break;
      }
      if (n % 20 === 19 && kills < 3) {
        kills += 1;
        await process.kill('SIGKILL');
      }
    }
    publishing = pending.size > 0;
    if (life > 20) throw new Error('It never gets done');
  }
  const supervisor = async () => {
    if ((await Promise.race([app!.exited, Promise.resolve('alive')])) !== 'alive') await start();
  };
  // Where the broker cannot be asked for what is unacked, the tables tell that nothing is missing any more.
  const settled = async () => {
    await supervisor();
    const { ready, unacked = 0 } = await broker.queueDepth(queue);
    const [{ missing } = { missing: '1' }] = await database.query<{ missing: string }>(
      `SELECT count(*) missing FROM business b
        WHERE NOT EXISTS (SELECT FROM outbox_message WHERE message_id = 'm-' || b.n AND status = 'dead')
          AND NOT EXISTS (SELECT FROM inbox_message WHERE message_id = 'm-' || b.n
                             AND (status IN ('done', 'dead') OR last_error IS NOT NULL))`,
    );
    return missing === '0' && (await openRows()) === 0 && ready + unacked === 0;
  };
  await waitFor('everything to be settled', settled, { timeout: 60_000, interval: 200 });

  const rows = (sql: string) => database.query<{ n: number; reason: string }>(sql);
  const business = await numbers('SELECT n FROM business');
  const handled = await numbers('SELECT n FROM effect');
  const outboxDead = await rows(
    "SELECT (body::json->>'n')::int n, last_error reason FROM outbox_message WHERE status = 'dead'",
  );
  const inboxDead = await rows(
    "SELECT (convert_from(body, 'UTF8')::json->>'n')::int n, last_error reason FROM inbox_message WHERE status = 'dead'",
  );
  const failed = await rows(
    "SELECT substr(message_id, 3)::int n, last_error reason FROM inbox_message WHERE status = 'seen'",
  );
  const rejected = (await broker.drain(deadLetters)).map(
    ({ content }) => (JSON.parse(content.toString()) as { n: number }).n,
  );

  expect(business).toEqual(all.filter((n) => fateOf(n) !== 'rolled back'));
  const accounted = [...handled, ...outboxDead.map(({ n }) => n), ...inboxDead.map(({ n }) => n)];
  expect([...accounted, ...failed.map(({ n }) => n)].sort((a, b) => a - b)).toEqual(business);
  expect(handled).toEqual(all.filter((n) => fateOf(n) === 'handled'));
  expect(inboxDead.map(({ n }) => n)).toEqual([13]);
  expect([...new Set(rejected)].sort((a, b) => a - b)).toEqual(all.filter((n) => fateOf(n) === 'fails'));
  for (const { reason } of [...outboxDead, ...inboxDead, ...failed]) expect(reason).toMatch(/\w{5}/);
}, 180_000);
