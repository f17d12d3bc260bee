import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import amqp from 'amqplib';
import pg from 'pg';
import { amqpUrl, databaseUrl } from '../services/server-urls.js';

const TABLE = 'case';

/** A name of its own for everything on the servers that others use too. */
export const uniqueNames = () => {
  const run = `package-${randomBytes(4).toString('hex')}`;
  return { database: run, exchange: `${run}.claims`, queue: `${run}.settlement` };
};

/**
 * Starts the compiled project on a database of its own, delivers one message twice and another once, stops it, and says what
 * is in the tables then.
 */
export async function deliverTwice(folder, { database, exchange, queue }) {
  const admin = new pg.Client(databaseUrl());
  await admin.connect();
  const connection = await amqp.connect(amqpUrl());
  const channel = await connection.createConfirmChannel();
  await admin.query(`CREATE DATABASE "${database}" TEMPLATE template0`);
  const url = Object.assign(new URL(databaseUrl()), { pathname: `/${database}` }).href;
  const sql = new pg.Client(url);
  await sql.connect();
  const app = start(folder, { DATABASE_URL: url, AMQP_URL: amqpUrl() });
  try {
    await until('the app is up', app, () => app.output.includes('successfully started'));
    const publish = (id, number) =>
      new Promise((resolve, reject) => {
        const body = Buffer.from(JSON.stringify({ number }));
        const options = { messageId: id, contentType: 'application/json' };
        channel.publish(exchange, 'claim.reported', body, options, (error) =>
          error ? reject(error) : resolve(),
        );
      });
    await publish('n-9921', '4711');
    await publish('n-9921', '4711');
    await publish('n-9922', '4712');
    const count = async (from) => Number((await sql.query(`SELECT count(*) FROM ${from}`)).rows[0].count);
    await until(
      'both messages are handled',
      app,
      async () => (await count("inbox_message WHERE status = 'done'")) === 2,
    );
    const exitCode = await stop(app);
    return {
      cases: await count(`"${TABLE}" WHERE claim = '4711'`),
      others: await count(`"${TABLE}" WHERE claim = '4712'`),
      // What was delivered and not acked is back in the queue, now that the app is gone.
      leftInQueue: (await channel.checkQueue(queue)).messageCount,
      exit: exitCode,
    };
  } finally {
    app.child.kill('SIGKILL');
    await sql.end();
    await admin.query(`DROP DATABASE "${database}" WITH (FORCE)`);
    await admin.end();
    await channel.deleteQueue(queue);
    await channel.deleteExchange(exchange);
    await connection.close();
  }
}

function start(folder, env) {
  const child = spawn(process.execPath, ['dist/main.js'], {
    cwd: folder,
    env: { ...process.env, NO_COLOR: '1', PORT: '0', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const app = {
    child,
    output: '',
    exited: new Promise((resolve) => child.on('exit', (code, signal) => resolve(signal ?? code))),
  };
  child.stdout.on('data', (chunk) => (app.output += chunk));
  child.stderr.on('data', (chunk) => (app.output += chunk));
  return app;
}

async function stop(app) {
  app.child.kill('SIGTERM');
  return Promise.race([app.exited, delay(15_000, 'did not stop', { ref: false })]);
}

async function until(description, app, holds) {
  const deadline = Date.now() + 20_000;
  while (!(await holds())) {
    const ended = app.child.exitCode !== null || app.child.signalCode !== null;
    if (ended || Date.now() > deadline) throw new Error(`Waited in vain until ${description}\n${app.output}`);
    await delay(25);
  }
}
