import { AddressInfo, connect, createServer, Socket } from 'node:net';

/** `up` = from the client to the server, `down` = from the server to the client. */
export type Direction = 'up' | 'down' | 'both';

export interface TcpProxy {
  readonly port: number;
  /** The same URL, but through this proxy. */
  through(url: string): string;
  /** Destroys all connections of now; new ones are accepted. Returns how many it were. */
  cut(): number;
  /** The server is away: connections are destroyed and new ones refused, as by a closed port. */
  refuse(): Promise<void>;
  /** The server is back on the same port. */
  accept(): Promise<void>;
  /** Bytes no longer get through, but the connection stays open, as with a broken cable or a frozen peer. */
  hold(direction?: Direction): void;
  /** What was held back goes on, in order, nothing lost. */
  resume(direction?: Direction): void;
  /** From now on every chunk takes this many milliseconds longer, in both directions. 0 ends it. */
  delay(milliseconds: number): void;
  connections(): number;
  /** Bytes that have been let through so far. */
  bytes(): { up: number; down: number };
  /** Bytes that are held or delayed at the moment. */
  waiting(): number;
  close(): Promise<void>;
}

/** Stands between a client and a real server, to disturb the network in ways that a test can name. */
export async function startTcpProxy(target: string | { host?: string; port: number }): Promise<TcpProxy> {
  const { host, port: targetPort } = typeof target === 'string' ? parse(target) : target;
  const links = new Set<Link>();
  const traffic: Traffic = { held: { up: false, down: false }, delay: 0, bytes: { up: 0, down: 0 } };

  const server = createServer({ allowHalfOpen: true }, (client) => {
    const link = new Link(
      client,
      connect({ host: host ?? '127.0.0.1', port: targetPort, allowHalfOpen: true }),
      traffic,
    );
    links.add(link);
    link.onEnd = () => links.delete(link);
  });
  const listen = (port: number) =>
    new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      server.listen(port, '127.0.0.1', () => {
        server.off('error', reject);
        resolve();
      });
    });
  const cut = () => {
    const count = links.size;
    for (const link of [...links]) link.destroy();
    return count;
  };
  const refuse = async () => {
    if (!server.listening) return;
    const closed = new Promise<void>((resolve) => server.close(() => resolve()));
    cut();
    await closed;
  };
  const setHeld = (direction: Direction, held: boolean) => {
    if (direction !== 'down') traffic.held.up = held;
    if (direction !== 'up') traffic.held.down = held;
    for (const link of links) link.flush();
  };

  await listen(0);
  const { port } = server.address() as AddressInfo;
  return {
    port,
    through(url) {
      const rewritten = new URL(url);
      rewritten.hostname = '127.0.0.1';
      rewritten.port = String(port);
      return rewritten.href;
    },
    cut,
    refuse,
    accept: async () => (server.listening ? undefined : await listen(port)),
    hold: (direction = 'both') => setHeld(direction, true),
    resume: (direction = 'both') => setHeld(direction, false),
    delay: (milliseconds) => void (traffic.delay = milliseconds),
    connections: () => links.size,
    bytes: () => ({ ...traffic.bytes }),
    waiting: () => [...links].reduce((sum, link) => sum + link.waiting(), 0),
    close: refuse,
  };
}

const DEFAULT_PORTS: Record<string, number> = {
  'amqp:': 5672,
  'amqps:': 5671,
  'postgres:': 5432,
  'postgresql:': 5432,
};

function parse(url: string): { host: string; port: number } {
  const { hostname, port, protocol } = new URL(url);
  return { host: hostname, port: Number(port) || (DEFAULT_PORTS[protocol] ?? 80) };
}

interface Traffic {
  held: { up: boolean; down: boolean };
  delay: number;
  bytes: { up: number; down: number };
}

/** One client connection and its counterpart at the server. */
class Link {
  onEnd: () => void = () => undefined;
  private readonly up: Lane;
  private readonly down: Lane;

  constructor(
    private readonly client: Socket,
    private readonly server: Socket,
    traffic: Traffic,
  ) {
    this.up = new Lane(client, server, 'up', traffic);
    this.down = new Lane(server, client, 'down', traffic);
    for (const socket of [client, server]) {
      socket.setNoDelay(true);
      socket.on('error', () => this.destroy());
      socket.on('close', () => this.destroyWhenDone());
    }
  }

  flush(): void {
    this.up.flush();
    this.down.flush();
  }

  waiting(): number {
    return this.up.waiting() + this.down.waiting();
  }

  destroy(): void {
    this.up.stop();
    this.down.stop();
    // A reset, not a polite end: the peer must not take it for a regular close.
    this.client.resetAndDestroy();
    this.server.resetAndDestroy();
    this.onEnd();
  }

  private destroyWhenDone(): void {
    if (this.client.destroyed && this.server.destroyed) this.onEnd();
    else if (this.client.errored || this.server.errored) this.destroy();
  }
}

/** One direction: a queue of chunks, so that order is kept whatever is held or delayed. */
class Lane {
  private readonly queue: { chunk: Buffer | null; due: number }[] = [];
  private timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly from: Socket,
    private readonly to: Socket,
    private readonly direction: 'up' | 'down',
    private readonly traffic: Traffic,
  ) {
    from.on('data', (chunk: Buffer) => this.push(chunk));
    from.on('end', () => this.push(null));
    to.on('drain', () => from.resume());
  }

  flush(): void {
    clearTimeout(this.timer);
    for (;;) {
      const next = this.queue[0];
      if (!next || this.traffic.held[this.direction] || this.to.destroyed) return;
      const wait = next.due - performance.now();
      if (wait > 0) {
        this.timer = setTimeout(() => this.flush(), wait);
        return;
      }
      this.queue.shift();
      if (next.chunk === null) this.to.end();
      else {
        this.traffic.bytes[this.direction] += next.chunk.length;
        if (!this.to.write(next.chunk)) this.from.pause();
      }
    }
  }

  waiting(): number {
    return this.queue.reduce((sum, { chunk }) => sum + (chunk?.length ?? 0), 0);
  }

  stop(): void {
    clearTimeout(this.timer);
    this.queue.length = 0;
  }

  private push(chunk: Buffer | null): void {
    this.queue.push({ chunk, due: performance.now() + this.traffic.delay });
    this.flush();
  }
}
