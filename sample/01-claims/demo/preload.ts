import { createRequire } from 'node:module';
import { settings } from '../shared/settings';
import { ChannelLike, ConfirmChannelLike, tap } from './wiretap';
import { leaveOffIdempotent } from './without-inbox';

/** Loaded into a service's process before its `main.ts`. */
if (process.env.DEMO_WITHOUT_INBOX) leaveOffIdempotent();

const { Channel, ConfirmChannel } = createRequire(__filename)('amqplib/lib/channel_model') as {
  Channel: { prototype: ChannelLike };
  ConfirmChannel: { prototype: ConfirmChannelLike };
};
const kill = () => process.kill(process.pid, 'SIGKILL');
const strikes = tap(settings.databaseUrl, Channel, ConfirmChannel);

process.on('message', ({ dieInsteadOf }: { dieInsteadOf: 'ack' | 'confirm' }) => {
  if (dieInsteadOf === 'ack') strikes.insteadOfAck = kill;
  else strikes.insteadOfConfirm = kill;
  process.send?.('armed');
});
