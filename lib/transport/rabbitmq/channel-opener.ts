import { within } from '../../timing/within';
import type { RawConnection } from './amqp-types';
import { ConfirmChannel } from './confirm-channel';

/** Milliseconds. What cannot be written for so long is on a connection that is about to die. */
const PATIENCE = 5_000;

/**
 * Opens channels, each only when those that died before it have written the rest of their data.
 *
 * amqplib gives the number of a closed channel to the next one at once, although frames of the old one may still wait to
 * be written (large bodies), and it writes a new channel's frames before those. To the broker they then belong to the new
 * channel: it closes the whole connection, and the app's consumers with it.
 */
export class ChannelOpener {
  private readonly opened = new Set<ConfirmChannel>();

  /** @param connection `undefined` while disconnected */
  constructor(private readonly connection: () => RawConnection | undefined) {}

  /** @throws Error when there is no connection */
  async open(): Promise<ConfirmChannel> {
    for (const channel of this.opened) {
      if (!channel.closed) continue;
      if (channel.connection === this.connection()) await within(PATIENCE, channel.written);
      this.opened.delete(channel);
    }
    const connection = this.connection();
    if (!connection) throw new Error('There is no connection to the broker');
    const channel = await ConfirmChannel.open(connection);
    this.opened.add(channel);
    return channel;
  }
}
