import { Channel, ChannelModel } from 'amqplib';
import { BrokerConsole, ControlCommand, erlangBinary } from './broker-console';
import { waitFor, WaitOptions } from './wait-for';

export interface QueueDepth {
  ready: number;
  /** `undefined` where the broker cannot be asked (see QueueWatch). */
  unacked: number | undefined;
  consumers: number;
}

export interface DrainOptions extends WaitOptions {
  /** Says from the consumer's side that nothing is in work. */
  idle?: () => boolean | Promise<boolean>;
}

/** Private brokers register how they are controlled, so that a test broker opened on their URL can see unacked too. */
const controls = new Map<string, ControlCommand>();
export const registerControl = (url: string, command: ControlCommand) => controls.set(hostOf(url), command);
export const forgetControl = (url: string) => controls.delete(hostOf(url));

/**
 * AMQP tells how many messages are *ready*, never how many are delivered and unacked. Those are known from rabbitmqctl,
 * where this machine's rabbitmqctl reaches the node in question (root or the rabbitmq user on the broker's host). For
 * quorum queues the node itself learns of it a few seconds late.
 *
 * Where it does not reach (a container, a remote host), `drained()` relies on the caller's `idle`. The proof that always
 * holds: close the consumer's *channel* (a cancel is not enough), then call `drained(queue, { idle: () => true })`. What it
 * had not acked is ready again by then.
 */
export class QueueWatch {
  private channel: Promise<Channel> | undefined;
  private readonly console: BrokerConsole;
  private readonly vhost: string;

  constructor(
    private readonly connection: ChannelModel,
    url: string,
  ) {
    const { pathname } = new URL(url);
    this.vhost = pathname.length > 1 ? decodeURIComponent(pathname.slice(1)) : '/';
    this.console = new BrokerConsole(controls.get(hostOf(url)) ?? { file: 'rabbitmqctl' });
  }

  async ready(queue: string): Promise<{ ready: number; consumers: number }> {
    this.channel ??= this.openChannel();
    const { messageCount, consumerCount } = await (await this.channel).checkQueue(queue);
    return { ready: messageCount, consumers: consumerCount };
  }

  async depth(queue: string): Promise<QueueDepth> {
    const seen = await this.ready(queue);
    // Names of test queues are unique, so a node that does not have this one is another node.
    const inside = await this.inside(queue).catch(() => undefined);
    return { ...seen, ready: inside?.ready ?? seen.ready, unacked: inside?.unacked };
  }

  async drained(queue: string, { idle, ...options }: DrainOptions = {}): Promise<void> {
    await waitFor(
      `queue ${queue} to drain`,
      async () => {
        // The cheap questions first.
        const { ready } = await this.ready(queue);
        if (ready > 0) throw new Error(`${ready} ready`);
        if (idle && !(await idle())) throw new Error('the consumer is still busy');
        const depth = await this.depth(queue);
        if (depth.ready > 0 || (depth.unacked ?? 0) > 0) throw new Error(JSON.stringify(depth));
        if (depth.unacked === undefined && !idle) {
          throw new Error('unacked is not visible on this broker: pass `idle` (see queue-depth.ts)');
        }
        return true;
      },
      options,
    );
  }

  end(): void {
    this.console.end();
  }

  private async inside(queue: string): Promise<{ ready: number; unacked: number } | undefined> {
    const answer = await this.console.evaluate(`
      {ok, Q} = rabbit_amqqueue:lookup(rabbit_misc:r(${erlangBinary(this.vhost)}, queue, ${erlangBinary(queue)})),
      [{_, Ready}, {_, Unacked}] = rabbit_amqqueue:info(Q, [messages_ready, messages_unacknowledged]),
      {Ready, Unacked}.`);
    const [, ready, unacked] = /^\{(\d+),(\d+)\}$/.exec(answer) ?? [];
    return ready === undefined ? undefined : { ready: Number(ready), unacked: Number(unacked) };
  }

  private async openChannel(): Promise<Channel> {
    const channel = await this.connection.createChannel();
    // A missing queue closes the channel; the next question opens another.
    const forget = () => (this.channel = undefined);
    return channel.on('error', forget).on('close', forget);
  }
}

function hostOf(url: string): string {
  return new URL(url).host;
}
