import { join } from 'node:path';
import type { Cleanup } from '../../shared/cleanup';
import { databaseServer } from '../../shared/database-server';
import { freePort } from '../../shared/free-port';
import { check, say, show, step } from '../../shared/narrator';
import { play } from '../../shared/play';
import { Program } from '../../shared/program';
import type { Sql } from '../../shared/sql';
import { temporaryDatabase } from '../../shared/temporary-database';
import { Provider } from './provider';

export async function webhook(): Promise<void> {
  const programs: Program[] = [];
  await play({
    title: 'A webhook whose sender repeats itself',
    log: () => programs.map(({ log }) => log).join('\n'),
    moral: 'Each event counted once, whoever repeated or crashed.',
    story: async (cleanup) => {
      const database = await temporaryDatabase(await databaseServer(cleanup), 'webhook', cleanup);
      const port = await freePort();
      const start = () => startApplication(database, port, programs, cleanup);
      const application = await start();
      await database.rows("INSERT INTO invoices (number) VALUES ('A-1')");
      const provider = new Provider(`http://127.0.0.1:${port}/webhooks/payments`);
      await repeated(provider, database);
      await tooEarly(provider, database);
      await withoutId(provider);
      await crash(provider, database, application, start);
    },
  });
}

async function startApplication(
  database: Sql,
  port: number,
  programs: Program[],
  cleanup: Cleanup,
): Promise<Program> {
  const program = await Program.start(join(__dirname, '../main.ts'), {
    env: { DATABASE_URL: database.url, PORT: String(port) },
    preload: [join(__dirname, 'die-instead-of-answer.ts')],
  });
  cleanup.add(() => program.stop());
  programs.push(program);
  return program;
}

async function repeated(provider: Provider, database: Sql): Promise<void> {
  step('The provider posts a payment of 10.00, and repeats it');
  const event = { id: 'evt_1', invoice: 'A-1', amount: 1000 };
  const first = await provider.post(event);
  check('the first is processed', first.status === 200 && first.duplicate === false);
  const again = await Promise.all(Array.from({ length: 10 }, () => provider.post(event)));
  check(
    'ten repetitions at once are answered with 200, as duplicates',
    again.every(({ status, duplicate }) => status === 200 && duplicate === true),
  );
  check('10.00 are paid', (await paid(database, 'A-1')) === 1000);
}

async function tooEarly(provider: Provider, database: Sql): Promise<void> {
  step('A payment for an invoice that is not there yet');
  const event = { id: 'evt_2', invoice: 'A-2', amount: 500 };
  const { status } = await provider.post(event);
  check('it fails, and nothing of it is kept', status === 404);
  await database.rows("INSERT INTO invoices (number) VALUES ('A-2')");
  const { duplicate } = await provider.repeat(event);
  check('repeated later it is no duplicate, and is processed', duplicate === false);
  check('5.00 are paid', (await paid(database, 'A-2')) === 500);
}

async function withoutId(provider: Provider): Promise<void> {
  step('An event without an id');
  const { status } = await provider.post({ invoice: 'A-1', amount: 1 });
  check('it is refused with 400: nothing could tell whether it was counted before', status === 400);
}

async function crash(
  provider: Provider,
  database: Sql,
  application: Program,
  start: () => Promise<Program>,
): Promise<void> {
  step('The application is killed after the commit, at the moment at which it would answer');
  await application.ask({ die: true });
  const event = { id: 'evt_3', invoice: 'A-1', amount: 250 };
  const [answer, signal] = await Promise.all([provider.post(event), application.ended()]);
  check('the provider has no answer', answer.status === 0 && signal === 'SIGKILL');
  say('It starts again, and the provider repeats the event.');
  await start();
  const { duplicate } = await provider.repeat(event);
  check('it is a duplicate', duplicate === true);
  show('invoices', [
    `A-1: ${await paid(database, 'A-1')} cents`,
    `A-2: ${await paid(database, 'A-2')} cents`,
  ]);
  check('12.50 are paid', (await paid(database, 'A-1')) === 1250);
}

async function paid(database: Sql, invoice: string): Promise<number | undefined> {
  const [row] = await database.rows<{ paid: number }>('SELECT paid FROM invoices WHERE number = $1', [
    invoice,
  ]);
  return row?.paid;
}
