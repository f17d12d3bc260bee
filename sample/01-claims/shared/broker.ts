import { RabbitMQConfig } from '@golevelup/nestjs-rabbitmq';
import { settings } from './settings';

export const CLAIMS_EXCHANGE = `${settings.prefix}claims`;
export const INTAKE_QUEUE = `${settings.prefix}intake`;
export const SETTLEMENT_QUEUE = `${settings.prefix}settlement`;

/** Where RabbitMQ puts a claim that settlement could not handle, until somebody has looked at it and replays it. */
export const DEAD_LETTER_EXCHANGE = `${settings.prefix}claims.dead`;
export const SETTLEMENT_DEAD_LETTERS = `${settings.prefix}settlement.dead`;

/** Both services declare this, so that it does not matter which of them starts first. */
export const broker: RabbitMQConfig = {
  uri: settings.amqpUrl,
  exchanges: [
    { name: CLAIMS_EXCHANGE, type: 'topic' },
    { name: DEAD_LETTER_EXCHANGE, type: 'direct' },
  ],
  queues: [
    {
      name: SETTLEMENT_DEAD_LETTERS,
      exchange: DEAD_LETTER_EXCHANGE,
      routingKey: 'settlement',
      options: { durable: true },
    },
  ],
  connectionManagerOptions: { reconnectTimeInSeconds: 1 },
  // No RPC here, so no reply queue.
  enableDirectReplyTo: false,
};
