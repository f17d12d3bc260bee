/** A mail as it arrived, by SMTP or at the stand-in for SES. */
export class ReceivedMail {
  constructor(
    readonly to: readonly string[],
    private readonly raw: string,
  ) {}

  get messageId(): string {
    return this.header('message-id');
  }

  get outboxId(): string {
    return this.header('x-outbox-message-id');
  }

  get subject(): string {
    return this.header('subject');
  }

  private header(name: string): string {
    const [head = ''] = this.raw.split('\r\n\r\n');
    const lines = head.replace(/\r\n[ \t]+/g, ' ').split('\r\n');
    const line = lines.find((each) => each.toLowerCase().startsWith(`${name}:`)) ?? '';
    return line.slice(name.length + 1).trim();
  }
}
