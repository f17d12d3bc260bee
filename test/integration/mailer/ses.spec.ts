import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';
import { SendEmailCommand, SESv2Client } from '@aws-sdk/client-sesv2';
import { headersOf } from '../../support/mail-server';
import { waitFor } from '../../support/wait-for';
import { MailSetup } from './mail-setup';

interface Answer {
  status: number;
  type?: string;
  message?: string;
}

interface SendEmailRequest {
  Destination: { ToAddresses: string[] };
  Content: { Raw: { Data: string } };
  ConfigurationSetName?: string;
}

/** What Amazon SES v2 would have been sent. */
const requests: SendEmailRequest[] = [];
let answer: (request: SendEmailRequest) => Answer = () => ({ status: 200 });

let setup: MailSetup;
let endpoint: Server;
let client: SESv2Client;
beforeAll(async () => {
  setup = await MailSetup.open();
  endpoint = createServer((request, response) => {
    void json(request).then((body) => {
      const sent = body as SendEmailRequest;
      const { status, type, message } = answer(sent);
      if (status === 200) requests.push(sent);
      response.statusCode = status;
      response.setHeader('content-type', 'application/json');
      if (type) response.setHeader('x-amzn-errortype', type);
      response.end(JSON.stringify(status === 200 ? { MessageId: 'made-by-ses' } : { message }));
    });
  });
  endpoint.listen(0, '127.0.0.1');
  await once(endpoint, 'listening');
});
beforeEach(() => {
  requests.length = 0;
  answer = () => ({ status: 200 });
  client = new SESv2Client({
    endpoint: `http://127.0.0.1:${(endpoint.address() as AddressInfo).port}`,
    region: 'eu-central-1',
    credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
    maxAttempts: 1,
  });
});
afterEach(async () => {
  await setup.reset();
  client.destroy();
});
afterAll(async () => {
  endpoint.closeAllConnections();
  endpoint.close();
  await setup.close();
});

const mail = { to: 'ann@example.com', subject: 'x', text: 'x' };
const start = (more: object = {}) =>
  setup.start({ mailer: { transport: { SES: { sesClient: client, SendEmailCommand } }, ...more } });
const isProbe = ({ Destination }: SendEmailRequest) => Destination.ToAddresses.includes('invalid@invalid');

describe('SES', () => {
  it('sends mails with a header of our own, since it replaces the Message-ID', async () => {
    const app = await start();
    const id = await app.send({ ...mail, ses: { ConfigurationSetName: 'claims' } });
    await setup.becomes('sent', id);
    expect(requests).toMatchObject([
      { Destination: { ToAddresses: ['ann@example.com'] }, ConfigurationSetName: 'claims' },
    ]);
    const raw = Buffer.from(requests[0]!.Content.Raw.Data, 'base64').toString();
    expect(headersOf(raw)).toMatchObject({ 'x-outbox-message-id': id, 'message-id': `<${id}@example.com>` });
  });

  it('kills a mail that it rejects', async () => {
    answer = () => ({ status: 400, type: 'MessageRejected', message: 'Email address is not verified' });
    const app = await start();
    const row = await setup.becomes('dead', await app.send(mail));
    expect(row).toMatchObject({ attempts: 1 });
    expect(row.last_error).toContain('Email address is not verified');
  });

  it('G4: that is in trouble itself uses up no attempts', async () => {
    let asked = 0;
    answer = () => (asked++, { status: 503, type: 'ServiceUnavailable', message: 'Not now' });
    const app = await start({ maxAttempts: 1 });
    const id = await app.send(mail);
    await waitFor('more attempts than are allowed', () => asked >= 4);
    expect(await setup.row(id)).toMatchObject({ status: 'ready', attempts: 0 });
    answer = () => ({ status: 200 });
    await setup.becomes('sent', id);
    expect(requests).toHaveLength(1);
  });

  it('that finds fault with one mail alone lets the others through', async () => {
    answer = (request) => {
      if (isProbe(request)) return { status: 400, type: 'BadRequestException', message: 'invalid' };
      return request.ConfigurationSetName
        ? { status: 404, type: 'NotFoundException', message: 'No such configuration set' }
        : { status: 200 };
    };
    const app = await start({ maxAttempts: 2, concurrency: 1 });
    const bad = await app.send({ ...mail, ses: { ConfigurationSetName: 'gone' } });
    await setup.becomes('sent', await app.send(mail));
    expect(await setup.becomes('dead', bad)).toMatchObject({ attempts: 2 });
  });
});
