import { once } from 'node:events';
import type { AddressInfo, Socket } from 'node:net';
import { SMTPServer, type SMTPServerDataStream, type SMTPServerSession } from 'smtp-server';

/** A mail as it arrived. */
export interface ReceivedMail {
  from: string;
  to: string[];
  /** By lower-case name, unfolded; the last one of several. */
  headers: Record<string, string>;
  /** The whole message. */
  raw: string;
}

/** An SMTP reply other than 250, e.g. `'450 4.2.0 Greylisted'`; `undefined` accepts. */
export type Refusal = string | undefined;

export interface MailServerScript {
  onConnect?: () => Refusal;
  onSender?: (address: string) => Refusal;
  onRecipient?: (address: string) => Refusal;
  /** Asked when the whole mail is there, which counts as received unless it is refused. `'hang up'` ends the connection. */
  onMail?: (mail: ReceivedMail) => Refusal | Promise<Refusal>;
  /** Demands this password of everybody. */
  password?: string;
}

export interface MailServer {
  readonly url: string;
  readonly port: number;
  /** In the order in which they were accepted. */
  readonly mails: readonly ReceivedMail[];
  /** How many connections there have been. */
  readonly connections: number;
  /** What it does from now on. */
  script: MailServerScript;
  /** Connections are cut and new ones refused, as by a closed port. */
  goAway(): Promise<void>;
  /** On the same port. */
  comeBack(): Promise<void>;
  close(): Promise<void>;
}

/** A real SMTP server on the loopback interface that does what a test tells it. */
export async function startMailServer(script: MailServerScript = {}): Promise<MailServer> {
  const mails: ReceivedMail[] = [];
  let connections = 0;
  let port = 0;
  let running: { server: SMTPServer; sockets: Set<Socket> } | undefined;

  const comeBack = async () => {
    if (running) return;
    const server = new SMTPServer({
      disabledCommands: script.password === undefined ? ['STARTTLS', 'AUTH'] : ['STARTTLS'],
      allowInsecureAuth: true,
      disableReverseLookup: true,
      onAuth: ({ username, password }, _, callback) =>
        password === handle.script.password
          ? callback(null, { user: username })
          : callback(refusal('535 5.7.8 Authentication credentials invalid')),
      onConnect: (_, callback) => {
        connections++;
        callback(refusal(handle.script.onConnect?.()));
      },
      onMailFrom: ({ address }, _, callback) => callback(refusal(handle.script.onSender?.(address))),
      onRcptTo: ({ address }, _, callback) => callback(refusal(handle.script.onRecipient?.(address))),
      onData: (stream, session, callback) => {
        receive(stream, session)
          .then(async (mail) => {
            const answer = await handle.script.onMail?.(mail);
            if (answer === 'hang up') return cut(sockets);
            if (answer === undefined) mails.push(mail);
            callback(refusal(answer));
          })
          .catch((error: Error) => callback(error));
      },
    });
    const sockets = new Set<Socket>();
    server.server.on('connection', (socket: Socket) => {
      sockets.add(socket);
      socket.on('close', () => sockets.delete(socket));
    });
    // Cut connections, from either side.
    server.on('error', () => undefined);
    const listener = server.listen(port, '127.0.0.1');
    await once(listener, 'listening');
    port = (listener.address() as AddressInfo).port;
    running = { server, sockets };
  };

  const goAway = async () => {
    if (!running) return;
    const { server, sockets } = running;
    running = undefined;
    const closed = once(server.server, 'close');
    server.server.close();
    cut(sockets);
    await closed;
  };

  const handle: MailServer = {
    script,
    mails,
    get url() {
      return `smtp://127.0.0.1:${port}`;
    },
    get port() {
      return port;
    },
    get connections() {
      return connections;
    },
    goAway,
    comeBack,
    close: goAway,
  };
  await comeBack();
  return handle;
}

function cut(sockets: Set<Socket>): void {
  for (const socket of sockets) socket.destroy();
}

function refusal(reply: Refusal): Error | null {
  if (reply === undefined) return null;
  const [code, ...words] = reply.split(' ');
  return Object.assign(new Error(words.join(' ')), { responseCode: Number(code) });
}

async function receive(stream: SMTPServerDataStream, { envelope }: SMTPServerSession): Promise<ReceivedMail> {
  const chunks: Buffer[] = [];
  for await (const chunk of stream) chunks.push(chunk as Buffer);
  const raw = Buffer.concat(chunks).toString('utf8');
  return {
    from: envelope.mailFrom ? envelope.mailFrom.address : '',
    to: envelope.rcptTo.map(({ address }) => address),
    headers: headersOf(raw),
    raw,
  };
}

export function headersOf(raw: string): Record<string, string> {
  const [head = ''] = raw.split('\r\n\r\n');
  const lines = head.replace(/\r\n[ \t]+/g, ' ').split('\r\n');
  return Object.fromEntries(
    lines.map((line) => {
      const colon = line.indexOf(':');
      return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()];
    }),
  );
}
