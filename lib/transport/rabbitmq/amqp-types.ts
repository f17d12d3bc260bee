/**
 * The few parts of amqplib, amqp-connection-manager and golevelup that are used, as structural types: amqplib is
 * golevelup's own dependency, in whatever version, and is never imported.
 */

export interface AmqpProperties {
  readonly messageId?: string;
  readonly headers?: Record<string, unknown>;
  readonly [property: string]: unknown;
}

export interface ReturnedMessage {
  readonly fields: { readonly replyCode?: number; readonly replyText?: string };
  readonly properties: { readonly messageId?: unknown };
}

export type AmqpError = Error & { readonly code?: unknown };

export interface RawConfirmChannel {
  publish(
    exchange: string,
    routingKey: string,
    content: Buffer,
    options: AmqpProperties,
    callback: (error: unknown) => void,
  ): boolean;
  on(event: 'error', listener: (error: AmqpError) => void): unknown;
  on(event: 'return', listener: (message: ReturnedMessage) => void): unknown;
  on(event: 'close' | 'drain', listener: () => void): unknown;
  close(): Promise<unknown>;
}

/** Internals of amqplib's channels, and therefore all optional: where the frames of a channel wait to be written. */
export interface ChannelInternals {
  readonly ch?: number;
  readonly connection?: {
    readonly channels?: readonly ({ readonly buffer?: WriteBuffer } | null | undefined)[];
  };
}

interface WriteBuffer {
  once?(event: 'close', listener: () => void): unknown;
}

export interface RawConnection {
  createConfirmChannel(): Promise<RawConfirmChannel>;
  on(event: 'error', listener: (error: AmqpError) => void): unknown;
  on(event: 'close', listener: () => void): unknown;
  off(event: 'error', listener: (error: AmqpError) => void): unknown;
  off(event: 'close', listener: () => void): unknown;
}

/** `AmqpConnectionManager` of amqp-connection-manager: reconnects by itself and tells of it. */
export interface ManagedConnection {
  /** `undefined` while disconnected. */
  readonly connection: RawConnection | undefined;
  on(event: ConnectionEvent, listener: () => void): unknown;
  off(event: ConnectionEvent, listener: () => void): unknown;
}

type ConnectionEvent = 'connect' | 'disconnect' | 'blocked' | 'unblocked';

/** golevelup's `AmqpConnection`. */
export interface BrokerConnection {
  /** Not there until `init()` was called. */
  readonly managedConnection: ManagedConnection | undefined;
  readonly configuration: { readonly defaultPublishOptions?: object };
}
