import type { ChannelOpener } from './channel-opener';
import type { ConfirmChannel } from './confirm-channel';

/** Holds one channel: opened when it is first needed, and again when the last one is dead. */
export class ChannelKeeper {
  private channel: ConfirmChannel | undefined;
  private opening: Promise<ConfirmChannel> | undefined;
  private closed = false;

  constructor(private readonly opener: ChannelOpener) {}

  /** The channel if it can be used at once. */
  get current(): ConfirmChannel | undefined {
    return this.channel?.usable ? this.channel : undefined;
  }

  /**
   * @param timeout milliseconds; a broker that is blocked or frozen opens no channel and says nothing
   * @throws Error when there is no connection, or no channel within the timeout
   */
  async acquire(timeout: number): Promise<ConfirmChannel> {
    if (this.current) return this.current;
    let timer: NodeJS.Timeout | undefined;
    const tooLate = new Promise<never>((_, reject) => {
      timer = setTimeout(
        () => reject(new Error(`The broker opened no channel within ${timeout} ms`)),
        timeout,
      );
    });
    try {
      return await Promise.race([(this.opening ??= this.open()), tooLate]);
    } finally {
      clearTimeout(timer);
    }
  }

  async close(): Promise<void> {
    this.closed = true;
    await this.channel?.close();
  }

  private async open(): Promise<ConfirmChannel> {
    try {
      if (this.closed) throw new Error('The transport is closed');
      const channel = await this.opener.open();
      // Closed meanwhile: nobody else would close this one.
      if (this.closed) await channel.close();
      this.channel = channel;
      return channel;
    } finally {
      this.opening = undefined;
    }
  }
}
