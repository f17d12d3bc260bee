import { Socket } from 'node:net';

/** What all links of a proxy share: what the test wants of the network, and what has passed. */
export interface Traffic {
  held: { up: boolean; down: boolean };
  delay: number;
  bytes: { up: number; down: number };
}

/** One client connection and its counterpart at the server. */
export class Link {
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
