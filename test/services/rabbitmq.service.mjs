import path from 'node:path';
import amqp from 'amqplib';
import { freePort } from './network.mjs';
import rabbit from './rabbitmq-node.js';
import { DEFAULT_AMQP_URL, amqpUrl, servicesFolder } from './server-urls.js';

/** What `npm run services` has to know about RabbitMQ. */
export const rabbitmqService = {
  name: 'RabbitMQ',
  variable: 'AMQP_URL',
  setting: 'amqpUrl',
  wantedUrl: amqpUrl,
  defaultUrl: DEFAULT_AMQP_URL,
  port: 5672,
  container: { image: 'rabbitmq:3', env: {} },
  packageName: 'rabbitmq-server',

  async logIn(url) {
    const connection = await amqp.connect(url, { timeout: 5_000 });
    connection.on('error', () => undefined);
    await connection.createChannel();
    const { version } = connection.connection.serverProperties;
    const gone = new Promise((resolve) => connection.once('close', resolve));
    await Promise.race([gone, connection.close().catch(() => undefined)]);
    return version;
  },

  /** A node of our own from what is installed. */
  async start(port) {
    const found = rabbit.findRabbit();
    if (!found) return undefined;
    const folder = path.join(servicesFolder, `rabbitmq-${port}`);
    const name = `nestjs-inbox-outbox-${port}`;
    const env = rabbit.nodeEnvironment({ folder, name, port, distPort: await freePort() });
    const child = rabbit.spawnNode({ ...found, folder, env });
    return { child, logFile: path.join(folder, 'console.log'), what: `the RabbitMQ of ${found.sbin}` };
  },
};
