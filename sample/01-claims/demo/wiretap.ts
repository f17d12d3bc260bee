import { Pool } from 'pg';

/**
 * Listens in on a service's AMQP channels from outside, so that the demo can count deliveries and can strike at an exact
 * moment. Neither the services nor the library know of it.
 */
export interface Strikes {
  /** Once, in the place of the next ack. */
  insteadOfAck?: (redeliver: () => void) => void;
  /** Once, in the place of telling the publisher that the broker has confirmed. */
  insteadOfConfirm?: () => void;
  close(): Promise<void>;
}

export interface MessageLike {
  fields: { redelivered: boolean };
  properties: { messageId?: unknown };
}

export interface ChannelLike {
  consume: (queue: string, onMessage: (message: MessageLike | null) => void, ...rest: unknown[]) => unknown;
  ack: (message: MessageLike, ...rest: unknown[]) => void;
  nack: (message: MessageLike, allUpTo?: boolean, requeue?: boolean) => void;
}

export interface ConfirmChannelLike {
  publish: (...args: unknown[]) => boolean;
}

export const CREATE_DELIVERIES = `CREATE TABLE IF NOT EXISTS demo_deliveries (
  id int GENERATED ALWAYS AS IDENTITY, queue text, message_id text, redelivered boolean, outcome text)`;

/** Must run before the service connects. */
export function tap(
  databaseUrl: string,
  channel: { prototype: ChannelLike },
  confirmChannel: { prototype: ConfirmChannelLike },
): Strikes {
  const log = new DeliveryLog(databaseUrl);
  const strikes: Strikes = { close: () => log.close() };
  tapDeliveries(channel.prototype, log, strikes);
  tapConfirms(confirmChannel.prototype, strikes);
  return strikes;
}

function tapDeliveries(channel: ChannelLike, log: DeliveryLog, strikes: Strikes): void {
  const { consume, ack, nack } = channel;
  channel.consume = function (this: ChannelLike, queue, onMessage, ...rest) {
    const counted = async (message: MessageLike | null) => {
      if (message) await log.delivered(queue, message);
      onMessage(message);
    };
    return consume.call(this, queue, (message) => void counted(message), ...rest);
  };
  channel.ack = function (this: ChannelLike, message, ...rest) {
    const strike = strikes.insteadOfAck;
    strikes.insteadOfAck = undefined;
    // A message that is put back is delivered again and marked so, as after a connection that was lost before the ack.
    if (strike) return strike(() => nack.call(this, message, false, true));
    ack.call(this, message, ...rest);
    log.settled(message, 'acked');
  };
  channel.nack = function (this: ChannelLike, message, ...rest) {
    nack.call(this, message, ...rest);
    log.settled(message, 'rejected');
  };
}

function tapConfirms(channel: ConfirmChannelLike, strikes: Strikes): void {
  const { publish } = channel;
  channel.publish = function (this: ConfirmChannelLike, ...args) {
    const confirmed = args[4] as (...outcome: unknown[]) => void;
    args[4] = (...outcome: unknown[]) => {
      const strike = strikes.insteadOfConfirm;
      strikes.insteadOfConfirm = undefined;
      if (strike) strike();
      else confirmed?.(...outcome);
    };
    return publish.apply(this, args);
  };
}

/** Writes on a connection of its own, before the service sees the message: a killed service's deliveries count too. */
class DeliveryLog {
  private readonly ids = new WeakMap<MessageLike, number>();

  /** One connection: what is noted is noted in order. */
  private readonly pool: Pool;

  constructor(connectionString: string) {
    this.pool = new Pool({ connectionString, max: 1, application_name: 'demo wiretap' });
    this.pool.on('error', () => undefined);
  }

  async delivered(queue: string, message: MessageLike): Promise<void> {
    const { rows } = await this.pool.query<{ id: number }>(
      'INSERT INTO demo_deliveries (queue, message_id, redelivered) VALUES ($1, $2, $3) RETURNING id',
      [queue, message.properties.messageId, message.fields.redelivered],
    );
    if (rows[0]) this.ids.set(message, rows[0].id);
  }

  close(): Promise<void> {
    return this.pool.end();
  }

  settled(message: MessageLike, outcome: string): void {
    const id = this.ids.get(message);
    // When the demo ends, the connection may be gone before the last note is written.
    this.pool
      .query('UPDATE demo_deliveries SET outcome = $2 WHERE id = $1', [id, outcome])
      .catch(() => undefined);
  }
}
