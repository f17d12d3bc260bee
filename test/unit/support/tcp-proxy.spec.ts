import { once } from 'node:events';
import { AddressInfo, connect, createServer, Server, Socket } from 'node:net';
import { startTcpProxy, TcpProxy } from '../../support/tcp-proxy';
import { waitFor } from '../../support/wait-for';

describe('startTcpProxy', () => {
  let echo: Server;
  let proxy: TcpProxy;
  const atServer: string[] = [];
  const sockets: Socket[] = [];

  beforeEach(async () => {
    atServer.length = 0;
    echo = createServer((socket) => {
      socket.on('error', () => undefined);
      socket.on('data', (chunk) => {
        atServer.push(chunk.toString());
        socket.write(chunk);
      });
    });
    await once(echo.listen(0, '127.0.0.1'), 'listening');
    proxy = await startTcpProxy({ port: (echo.address() as AddressInfo).port });
  });
  afterEach(async () => {
    for (const socket of sockets.splice(0)) socket.destroy();
    await proxy.close();
    echo.close();
  });

  async function client() {
    const socket = connect(proxy.port, '127.0.0.1');
    sockets.push(socket);
    let received = '';
    const seen = { error: undefined as string | undefined };
    socket.on('data', (chunk) => (received += chunk.toString()));
    socket.on('error', (error: NodeJS.ErrnoException) => (seen.error = error.code));
    await new Promise<void>((resolve) => socket.once('connect', resolve).once('close', () => resolve()));
    return { socket, seen, received: () => received };
  }

  it('passes bytes on in both directions, and counts them', async () => {
    const { socket, received } = await client();
    socket.write('a'.repeat(300_000));
    await waitFor('the echo', () => received().length === 300_000);
    expect(proxy.bytes()).toEqual({ up: 300_000, down: 300_000 });
    expect(proxy.connections()).toBe(1);
  });

  it('ends politely when the client does', async () => {
    const { socket, received } = await client();
    socket.end('bye');
    await once(socket, 'close');
    expect(received()).toBe('bye');
    await waitFor('the link to be forgotten', () => proxy.connections() === 0);
  });

  it('cut: resets the connections of now, and takes new ones', async () => {
    const first = await client();
    first.socket.write('one');
    await waitFor('the echo', first.received);
    expect(proxy.cut()).toBe(1);
    await waitFor('the reset', () => first.seen.error === 'ECONNRESET');
    const second = await client();
    second.socket.write('two');
    expect(await waitFor('the echo', second.received)).toBe('two');
  });

  it('refuse: as a closed port, until accept opens the same port', async () => {
    await client();
    await proxy.refuse();
    expect(proxy.connections()).toBe(0);
    expect((await client()).seen.error).toBe('ECONNREFUSED');
    await proxy.accept();
    const { socket, received } = await client();
    socket.write('back');
    expect(await waitFor('the echo', received)).toBe('back');
  });

  it('hold: nothing gets through and nothing is lost', async () => {
    const { socket, received } = await client();
    socket.write('1');
    await waitFor('the echo', received);
    proxy.hold();
    socket.write('2');
    const other = await client();
    other.socket.write('3');
    await waitFor('both to reach the proxy', () => proxy.waiting() === 2);
    expect(atServer).toEqual(['1']);
    proxy.resume();
    await waitFor('the echoes', () => received() === '12' && other.received() === '3');
  });

  it('hold down: the server gets the request, the client no answer', async () => {
    const { socket, received } = await client();
    proxy.hold('down');
    socket.write('request');
    await waitFor('the request at the server', () => atServer.length === 1);
    await waitFor('the answer at the proxy', () => proxy.waiting() === 7);
    expect(received()).toBe('');
    proxy.resume('down');
    await waitFor('the answer', () => received() === 'request');
  });

  it('cut while held: what was held is lost, as on a broken cable', async () => {
    const { socket, seen } = await client();
    proxy.hold('up');
    socket.write('lost');
    await waitFor('it to reach the proxy', () => proxy.waiting() === 4);
    proxy.cut();
    await waitFor('the reset', () => seen.error);
    proxy.resume();
    expect(atServer).toEqual([]);
  });

  it('delay: later, but in order', async () => {
    const { socket, received } = await client();
    proxy.delay(60);
    const begin = performance.now();
    socket.write('slow');
    await waitFor('it to reach the proxy', () => proxy.waiting() === 4, { interval: 1 });
    proxy.delay(0);
    socket.write('er');
    await waitFor('the echo', () => received() === 'slower');
    expect(performance.now() - begin).toBeGreaterThanOrEqual(60);
  });

  it('rewrites a URL', () => {
    expect(proxy.through('amqp://guest:guest@example.test:5672/vhost?heartbeat=2')).toBe(
      `amqp://guest:guest@127.0.0.1:${proxy.port}/vhost?heartbeat=2`,
    );
  });
});
