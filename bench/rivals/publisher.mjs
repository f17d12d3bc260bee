import { createRequire } from 'node:module';
import { connect } from 'amqplib';

const { amqpUrl } = createRequire(import.meta.url)('../../test/services/server-urls.js');

/** A confirmed publish, with as many in flight as its callers start. */
export async function openPublisher(queue) {
  const connection = await connect(amqpUrl());
  const channel = await connection.createConfirmChannel();
  return (messageId, payload) =>
    new Promise((resolve, reject) => {
      const content = Buffer.from(JSON.stringify(payload));
      const options = { persistent: true, mandatory: true, messageId, contentType: 'application/json' };
      channel.publish('', queue, content, options, (error) => (error ? reject(error) : resolve()));
    });
}

/** A JSON body of exactly 200 bytes. */
export function body(n) {
  const bare = JSON.stringify({ n, pad: '' }).length;
  return { n, pad: 'x'.repeat(200 - bare) };
}

/** Asks until the answer is true. */
export async function until(condition) {
  while (!(await condition())) await new Promise((resolve) => setTimeout(resolve, 5));
}
