import { AddressInfo, connect, createServer } from 'node:net';
import { Link, Traffic } from './tcp-link';

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
