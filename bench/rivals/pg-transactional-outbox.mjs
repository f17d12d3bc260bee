import { randomUUID } from 'node:crypto';
import pg from 'pg';
import outbox from 'pg-transactional-outbox';
import serving from '../harness/serve.js';
import { body, openPublisher, until } from './publisher.mjs';

const connectionString = process.env.DATABASE;
const { DatabaseSetup, getDisabledLogger, initializeMessageStorage, initializePollingMessageListener } =
  outbox;
const logger = getDisabledLogger();
const settings = {
  dbSchema: 'public',
  dbTable: 'outbox',
  nextMessagesFunctionName: 'next_outbox_messages',
  nextMessagesBatchSize: 20,
};
const config = { outboxOrInbox: 'outbox', dbListenerConfig: { connectionString }, settings };
const pool = new pg.Pool({ connectionString });
const store = initializeMessageStorage(config, logger);
let publish;

serving.serve({
  async ready({ queue }) {
    publish = await openPublisher(queue);
    const setup = {
      outboxOrInbox: 'outbox',
      database: new URL(connectionString).pathname.slice(1),
      schema: 'public',
      table: 'outbox',
      listenerRole: 'postgres',
      nextMessagesName: 'next_outbox_messages',
    };
    await pool.query(DatabaseSetup.dropAndCreateTable(setup));
    await pool.query(DatabaseSetup.createPollingFunction(setup));
    await pool.query(DatabaseSetup.setupPollingIndexes(setup));
  },

  async fill({ count }) {
    const client = await pool.connect();
    await client.query('BEGIN');
    for (let n = 0; n < count; n++) {
      const message = {
        id: randomUUID(),
        aggregateType: 'message',
        aggregateId: String(n),
        messageType: 'message',
        concurrency: 'parallel',
        payload: body(n),
      };
      await store(message, client);
    }
    await client.query('COMMIT');
    client.release();
  },

  async drain() {
    const started = performance.now();
    const [shutdown] = initializePollingMessageListener(
      config,
      { handle: ({ id, payload }) => publish(id, payload) },
      logger,
    );
    await until(async () => {
      const { rows } = await pool.query(
        'SELECT NOT EXISTS (SELECT FROM outbox WHERE processed_at IS NULL) AS done',
      );
      return rows[0].done;
    });
    const milliseconds = performance.now() - started;
    await shutdown();
    return milliseconds;
  },
});
