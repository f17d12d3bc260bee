import { connect } from 'amqplib';

/**
 * True when a client can log in and open a channel; rejects otherwise, and also when that takes longer than `timeout`
 * milliseconds: a broker that is starting or stopping may accept a connection and then never say another word.
 */
export async function brokerAnswers(url: string, timeout = 10_000): Promise<boolean> {
  const limit = new AbortController();
  const tooLate = new Promise<never>((_, reject) => {
    limit.signal.addEventListener('abort', () => reject(new Error(`no answer within ${timeout} ms`)));
  });
  const timer = setTimeout(() => limit.abort(), timeout);
  try {
    // The signal goes to the socket, which it destroys.
    return await Promise.race([openAndClose(url, limit.signal), tooLate]);
  } finally {
    clearTimeout(timer);
  }
}

async function openAndClose(url: string, signal: AbortSignal): Promise<boolean> {
  const connection = await connect(url, { signal });
  connection.on('error', () => undefined);
  const gone = new Promise<void>((resolve) => connection.once('close', () => resolve()));
  await connection.createChannel();
  // close() alone never settles when the connection breaks meanwhile.
  await Promise.race([gone, connection.close().catch(() => undefined)]);
  return true;
}
