import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { Channel, ChannelModel } from 'amqplib';
import { waitFor, WaitOptions } from './wait-for';

const run = promisify(execFile);

export interface QueueDepth {
  ready: number;
  /** `undefined` where the broker cannot be asked (see below). */
  unacked: number | undefined;
  consumers: number;
}

export interface QueueWatch {
  depth(queue: string): Promise<QueueDepth>;
  drained(queue: string, options?: WaitOptions & { idle?: () => boolean | Promise<boolean> }): Promise<void>;
}

/** Runs rabbitmqctl against the node behind a URL. */
export type RabbitControl = (...args: string[]) => Promise<string>;

/** Private brokers register how they are controlled, so that a test broker opened on their URL can see unacked too. */
const controls = new Map<string, RabbitControl>();
export const registerControl = (url: string, control: RabbitControl) => controls.set(hostOf(url), control);
export const forgetControl = (url: string) => controls.delete(hostOf(url));

/**
 * AMQP tells how many messages are *ready*, never how many are delivered and unacked. Those are known from rabbitmqctl,
 * where this machine's rabbitmqctl reaches the node in question (root or the rabbitmq user on the broker's host); it
 * takes about a second, so it is asked only when ready is 0.
 *
 * Where it does not reach (a container, a remote host), `drained()` relies on the caller's `idle`, which says from the
 * consumer's side that nothing is in work. The proof that always holds: close the consumer's *channel* (a cancel is not
 * enough), then call `drained(queue, { idle: () => true })`. What it had not acked is ready again by then.
 */
export function queueWatch(connection: ChannelModel, url: string): QueueWatch {
  let channel: Promise<Channel> | undefined;
  const openChannel = async () => {
    const opened = await connection.createChannel();
    // A missing queue closes the channel; the next question opens another.
    opened.on('error', () => (channel = undefined));
    opened.on('close', () => (channel = undefined));
    return opened;
  };
  const ready = async (queue: string) => {
    channel ??= openChannel();
    const { messageCount, consumerCount } = await (await channel).checkQueue(queue);
    return { ready: messageCount, consumers: consumerCount };
  };
  const depth = async (queue: string): Promise<QueueDepth> => {
    const seen = await ready(queue);
    return { ...seen, unacked: await unackedOf(queue, url) };
  };
  return {
    depth,
    async drained(queue, { idle, ...options } = {}) {
      await waitFor(
        `queue ${queue} to drain`,
        async () => {
          const { ready: waiting } = await ready(queue);
          if (waiting > 0) throw new Error(`${waiting} ready`);
          if (idle && !(await idle())) throw new Error('the consumer is still busy');
          const now = await depth(queue);
          if (now.ready > 0 || (now.unacked ?? 0) > 0) throw new Error(JSON.stringify(now));
          if (now.unacked === undefined && !idle) {
            throw new Error('unacked is not visible on this broker: pass `idle` (see queue-depth.ts)');
          }
          return true;
        },
        options,
      );
    },
  };
}

async function unackedOf(queue: string, url: string): Promise<number | undefined> {
  const control = controls.get(hostOf(url)) ?? systemControl;
  const { pathname } = new URL(url);
  const vhost = pathname.length > 1 ? decodeURIComponent(pathname.slice(1)) : '/';
  let listing: string;
  try {
    listing = await control(
      '-q',
      'list_queues',
      '-p',
      vhost,
      'name',
      'messages_unacknowledged',
      '--no-table-headers',
    );
  } catch {
    return undefined;
  }
  // Names of test queues are unique, so a node that does not list this one is another node.
  const line = listing.split('\n').find((row) => row.startsWith(`${queue}\t`));
  return line === undefined ? undefined : Number(line.split('\t')[1]);
}

const systemControl: RabbitControl = async (...args) =>
  (await run('rabbitmqctl', args, { timeout: 15_000 })).stdout;

function hostOf(url: string): string {
  return new URL(url).host;
}
