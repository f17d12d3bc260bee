import { once } from 'node:events';
import type { AddressInfo, Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { SMTPServer } from 'smtp-server';
import { ReceivedMail } from './received-mail';

/** A real SMTP server on this machine, with bad days. */
export class MailServer {
  readonly mails: ReceivedMail[] = [];
  /** What it says to recipients from now on, e.g. `450 Greylisted`; `undefined` lets them in. */
  answerToRecipients: string | undefined;
  /** Asked when it has a mail, before it says so. */
  beforeAnswer: () => Promise<unknown> | undefined = () => undefined;
  refused = 0;
  private running: { server: SMTPServer; sockets: Set<Socket> } | undefined;
  private port = 0;

  static async start(): Promise<MailServer> {
    const server = new MailServer();
    await server.comeBack();
    return server;
  }

  get url(): string {
    return `smtp://127.0.0.1:${this.port}`;
  }

  to(address: string): ReceivedMail[] {
    return this.mails.filter(({ to }) => to.includes(address));
  }

  async goAway(): Promise<void> {
    if (!this.running) return;
    const { server, sockets } = this.running;
    this.running = undefined;
    const closed = once(server.server, 'close');
    server.server.close();
    for (const socket of sockets) socket.destroy();
    await closed;
  }

  async comeBack(): Promise<void> {
    const server = new SMTPServer({
      disabledCommands: ['STARTTLS', 'AUTH'],
      disableReverseLookup: true,
      onRcptTo: (_, __, callback) => {
        const [code, ...words] = (this.answerToRecipients ?? '').split(' ');
        if (code) this.refused++;
        callback(code ? Object.assign(new Error(words.join(' ')), { responseCode: Number(code) }) : null);
      },
      onData: (stream, { envelope }, callback) => {
        const to = envelope.rcptTo.map(({ address }) => address);
        text(stream)
          .then((raw) => this.mails.push(new ReceivedMail(to, raw)))
          .then(() => this.beforeAnswer())
          .then(() => callback(null), callback);
      },
    });
    const sockets = new Set<Socket>();
    server.server.on('connection', (socket: Socket) => {
      sockets.add(socket);
      socket.on('close', () => sockets.delete(socket));
    });
    // Connections that break off are part of the story.
    server.on('error', () => undefined);
    const listener = server.listen(this.port, '127.0.0.1');
    await once(listener, 'listening');
    this.port = (listener.address() as AddressInfo).port;
    this.running = { server, sockets };
  }
}
