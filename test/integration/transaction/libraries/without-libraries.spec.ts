import { startAppProcess, type AppProcess } from '../../../support/app-process';
import { openTestBroker, type TestBroker } from '../../../support/test-broker';
import { createTestDatabase, type TestDatabase } from '../../../support/test-database';

let database: TestDatabase;
let broker: TestBroker;
let app: AppProcess | undefined;

beforeAll(async () => {
  [database, broker] = await Promise.all([createTestDatabase(), openTestBroker()]);
  await database.query('CREATE TABLE effect (text text)');
});
afterAll(async () => {
  await app?.close();
  await Promise.all([database?.close(), broker?.close()]);
});

test('where no optional peer is installed everything works, and none is asked for', async () => {
  const [input, output] = [await broker.assertQueue('in'), await broker.assertQueue('out')];
  const env = { DATABASE: database.url, BROKER: broker.url, INPUT: input, OUTPUT: output };
  app = startAppProcess('test/integration/transaction/libraries/fixtures/without-libraries.ts', { env });
  await app.waitFor('ready', undefined, { timeout: 40_000 });
  const collector = await broker.collect(output);

  await broker.sendToQueue(input, 'n-1', { messageId: 'n-1' });
  await broker.sendToQueue(input, 'n-1', { messageId: 'n-1' });
  await collector.count(1);
  expect(await app.request('asked for')).toEqual([]);

  // Traces of the libraries, which cannot be loaded from here: they are asked for, and missed by nobody.
  await app.request('pretend');
  await broker.sendToQueue(input, 'n-2', { messageId: 'n-2' });
  await collector.count(2);
  expect(new Set(await app.request<string[]>('asked for'))).toEqual(
    new Set(['typeorm-transactional', '@opentelemetry/api']),
  );
  await broker.drained(input);
  expect(collector.json()).toEqual(['n-1', 'n-2']);
  expect(await database.query('SELECT text FROM effect ORDER BY 1')).toEqual([
    { text: 'n-1' },
    { text: 'n-2' },
  ]);
});
