import { connect } from 'amqplib';

/** True when a client can log in and open a channel; rejects otherwise. */
export async function brokerAnswers(url: string): Promise<boolean> {
  const connection = await connect(url, { timeout: 5_000 });
  connection.on('error', () => undefined);
  const gone = new Promise<void>((resolve) => connection.once('close', () => resolve()));
  await connection.createChannel();
  // close() alone never settles when the connection breaks meanwhile.
  await Promise.race([gone, connection.close().catch(() => undefined)]);
  return true;
}
