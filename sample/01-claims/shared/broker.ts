import { RabbitMQConfig } from '@golevelup/nestjs-rabbitmq';
import { settings } from './settings';

export const CLAIMS_EXCHANGE = `${settings.prefix}claims`;
export const INTAKE_QUEUE = `${settings.prefix}intake`;
export const SETTLEMENT_QUEUE = `${settings.prefix}settlement`;

/** Both services declare this, so that it does not matter which of them starts first. */
export const broker: RabbitMQConfig = {
  uri: settings.amqpUrl,
  exchanges: [{ name: CLAIMS_EXCHANGE, type: 'topic' }],
  connectionManagerOptions: { reconnectTimeInSeconds: 1 },
  // No RPC here, so no reply queue.
  enableDirectReplyTo: false,
};
