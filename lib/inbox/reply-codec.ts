import type { AmqpConnection } from '@golevelup/nestjs-rabbitmq';

/** A reply's bytes as golevelup sends them, and back. */
export class ReplyCodec {
  constructor(
    private readonly connection: {
      readonly configuration: Pick<AmqpConnection['configuration'], 'serializer' | 'deserializer'>;
    },
  ) {}

  /** @throws whatever golevelup's `serializer` throws */
  encode(reply: unknown): Buffer {
    if (reply === undefined || reply === null) return Buffer.alloc(0);
    if (Buffer.isBuffer(reply)) return reply;
    if (reply instanceof Uint8Array) return Buffer.from(reply);
    const { serializer } = this.connection.configuration;
    return serializer ? serializer(reply) : Buffer.from(JSON.stringify(reply));
  }

  /**
   * What the handler has returned, as far as it can be told; interceptors around may go on working with it as with the first
   * reply. The bytes themselves where it would be encoded in another way.
   */
  decode(bytes: Buffer): unknown {
    if (bytes.length === 0) return undefined;
    try {
      const reply: unknown = this.connection.configuration.deserializer?.(bytes, undefined as never);
      if (reply !== undefined && this.encode(reply).equals(bytes)) return reply;
    } catch {
      // No JSON, for example.
    }
    return bytes;
  }
}
