import { once } from 'node:events';
import { connect, createServer } from 'node:net';

/** True when something accepts connections there, whatever it is. */
export async function listens(host, port) {
  const socket = connect({ host, port, timeout: 3_000 });
  socket.once('timeout', () => socket.destroy(new Error('timeout')));
  try {
    await once(socket, 'connect');
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}

export async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  await once(server, 'close');
  return port;
}
