import type { ClaimedMessage } from '../../persistence/outbox-statements';
import type { Availability, SendLimits, SendOutcome, Transport } from '../transport';
import { type AmqpMessage, toAmqpMessage } from './amqp-message';
import type { BrokerConnection } from './amqp-types';
import { ChannelKeeper } from './channel-keeper';
import { ChannelOpener } from './channel-opener';
import type { ConfirmChannel, PublishOutcome } from './confirm-channel';
import { ConnectionWatch } from './connection-watch';
import { Suspects } from './suspects';

/**
 * Sends over RabbitMQ on golevelup's connection, but on channels of its own: a fault on the default channel would cut
 * every consumer of the app, and golevelup's own publish buffers in memory what the broker cannot take.
 *
 * 1. The row becomes an AMQP message; what cannot be read has failed.
 * 2. A suspect goes to step 5. Others go to the shared channel, opened when needed, as soon as its write buffer has room.
 * 3. Right before the bytes are written the lease is asked (`mayStart`).
 * 4. The outcome: confirmed and not returned → sent; returned (always `mandatory`) or nacked → failed; no answer in
 *    time, or the connection broke → unknown. When the *server* closed the channel because of something that was
 *    published, all that was unanswered is lost with it. Where the broker says that it was a missing exchange, the
 *    messages for it have failed and the others start again at step 2. Otherwise it names no culprit: step 5 for all.
 * 5. Suspects are sent one at a time on a channel of their own, while others go on. The one that closes the channel again
 *    when it is alone on it is guilty: only it has failed, and it is sent alone from then on.
 */
export class RabbitMqTransport implements Transport {
  private readonly watch: ConnectionWatch;
  private readonly shared: ChannelKeeper;
  private readonly lane: ChannelKeeper;
  private readonly suspects = new Suspects();
  /** The suspect that was queued last. */
  private lastSuspect: Promise<unknown> = Promise.resolve();

  /** @param broker golevelup's `AmqpConnection`; for a named one, that of `AmqpConnectionManager.getConnection(name)` */
  constructor(private readonly broker: BrokerConnection) {
    this.watch = new ConnectionWatch(broker);
    const opener = new ChannelOpener(() => this.watch.connection);
    this.shared = new ChannelKeeper(opener);
    this.lane = new ChannelKeeper(opener);
  }

  availability(): Availability {
    return this.watch.availability();
  }

  onAvailable(listener: () => void): () => void {
    return this.watch.onAvailable(listener);
  }

  async send(row: ClaimedMessage, limits: SendLimits): Promise<SendOutcome> {
    let message: AmqpMessage;
    try {
      message = toAmqpMessage(row, this.broker.configuration.defaultPublishOptions);
    } catch (thrown) {
      return { kind: 'failed', error: (thrown as Error).message, cause: thrown };
    }
    let written = false;
    for (let chances = 3; chances > 0 && !this.suspects.isSuspect(message); chances--) {
      const outcome = await this.publish(this.shared, message, limits);
      if (outcome.kind !== 'lost' || !outcome.fault.byMessage) return told(outcome, written);
      written = true;
      const verdict = this.suspects.judge(message, outcome.fault);
      if (verdict === 'guilty') return { kind: 'failed', error: outcome.fault.error };
    }
    const outcome = await this.sendInLane(message, limits);
    return told(outcome, written);
  }

  async close(): Promise<void> {
    this.watch.close();
    await Promise.all([this.shared.close(), this.lane.close()]);
  }

  private sendInLane(message: AmqpMessage, limits: SendLimits): Promise<SendOutcome> {
    const turn = this.lastSuspect.then(() => this.sendAlone(message, limits));
    this.lastSuspect = turn;
    return turn;
  }

  private async sendAlone(message: AmqpMessage, limits: SendLimits): Promise<SendOutcome> {
    const answer = this.suspects.answerFor(message);
    if (answer !== undefined) return { kind: 'failed', error: answer };
    const outcome = await this.publish(this.lane, message, limits);
    if (outcome.kind === 'sent' || outcome.kind === 'failed') this.suspects.acquit(message);
    if (outcome.kind !== 'lost' || !outcome.fault.byMessage) return told(outcome);
    this.suspects.convict(message, outcome.fault);
    return { kind: 'failed', error: outcome.fault.error };
  }

  /** At once where nothing has to be waited for, which is nearly always: a promise less for each message. */
  private publish(
    keeper: ChannelKeeper,
    message: AmqpMessage,
    limits: SendLimits,
  ): Promise<PublishOutcome | Unsent> {
    const channel = keeper.current;
    const isReady = channel?.writable === true && this.watch.availability().available;
    return isReady ? write(channel, message, limits) : this.publishPatiently(keeper, message, limits);
  }

  private async publishPatiently(
    keeper: ChannelKeeper,
    message: AmqpMessage,
    limits: SendLimits,
  ): Promise<PublishOutcome | Unsent> {
    const patience = performance.now() + limits.timeout;
    for (;;) {
      const state = this.watch.availability();
      if (!state.available) return unsent(`The broker is not available: ${state.reason}`);
      let channel = keeper.current;
      try {
        channel ??= await keeper.acquire(limits.timeout);
      } catch (thrown) {
        return unsent((thrown as Error).message);
      }
      if (!channel.writable) {
        const left = patience - performance.now();
        if (left <= 0) return unsent('The connection to the broker takes no more data');
        await channel.untilWritable(left);
        continue;
      }
      if (!channel.usable) continue;
      return write(channel, message, limits);
    }
  }
}

type Unsent = Extract<SendOutcome, { kind: 'unsent' }>;

function write(
  channel: ConfirmChannel,
  message: AmqpMessage,
  limits: SendLimits,
): Promise<PublishOutcome | Unsent> {
  if (!limits.mayStart()) return Promise.resolve(unsent('The lease has ended, or the dispatcher stops'));
  return channel.publish(message, limits.timeout);
}

const unsent = (error: string): Unsent => ({ kind: 'unsent', error });

/** What the channel knows, in the words of the port. @param before whether the message was written once already */
function told(outcome: PublishOutcome | SendOutcome, before = false): SendOutcome {
  switch (outcome.kind) {
    case 'unanswered':
      return { kind: 'unknown', error: outcome.error, unanswered: true };
    case 'lost':
      return { kind: 'unknown', error: outcome.fault.error };
    case 'closed':
      return { kind: before ? 'unknown' : 'unsent', error: outcome.fault.error };
    case 'unsent':
      return { kind: before ? 'unknown' : 'unsent', error: outcome.error };
    default:
      return outcome;
  }
}
