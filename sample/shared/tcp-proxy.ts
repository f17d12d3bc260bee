import { AddressInfo, connect, createServer, Socket } from 'node:net';

/** Stands between the services and the broker, so that the broker can be "away" without touching the broker. */
export class TcpProxy {
  private readonly sockets = new Set<Socket>();
  private readonly server = createServer((client) => this.join(client));

  private constructor(private readonly target: URL) {}

  static async before(url: string): Promise<TcpProxy> {
    const proxy = new TcpProxy(new URL(url));
    await proxy.accept(0);
    return proxy;
  }

  /** The target's URL by way of this proxy. */
  get url(): string {
    const url = new URL(this.target);
    url.hostname = '127.0.0.1';
    url.port = String(this.port);
    return url.href;
  }

  /** As if the server were gone: connections break, new ones are refused. */
  async refuse(): Promise<void> {
    const closed = new Promise((resolve) => this.server.close(resolve));
    for (const socket of this.sockets) socket.destroy();
    await closed;
  }

  async accept(port = this.port): Promise<void> {
    await new Promise<void>((resolve) => this.server.listen(port, '127.0.0.1', resolve));
    this.port = (this.server.address() as AddressInfo).port;
  }

  private port = 0;

  private join(client: Socket): void {
    const server = connect(Number(this.target.port) || 5672, this.target.hostname);
    client.pipe(server).pipe(client);
    for (const [socket, other] of [
      [client, server],
      [server, client],
    ] as const) {
      this.sockets.add(socket);
      socket.on('error', () => other.destroy());
      socket.on('close', () => {
        this.sockets.delete(socket);
        other.destroy();
      });
    }
  }
}
