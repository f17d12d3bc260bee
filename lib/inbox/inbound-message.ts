/**
 * A delivery as it came from the broker: the parts of amqplib's `ConsumeMessage` that the inbox reads. Structural, so that
 * no particular copy of amqplib is needed.
 */
export interface InboundMessage {
  readonly content: Buffer;
  readonly fields: {
    readonly exchange: string;
    readonly routingKey: string;
    readonly redelivered: boolean;
  };
  readonly properties: {
    readonly messageId?: unknown;
    readonly headers?: Record<string, unknown>;
    readonly [property: string]: unknown;
  };
}
