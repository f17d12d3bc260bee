import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';
import type { Cleanup } from '../../shared/cleanup';
import { ReceivedMail } from './received-mail';

interface SendEmailRequest {
  Destination?: { ToAddresses?: string[] };
  Content?: { Raw?: { Data?: string } };
}

/** Answers as Amazon SES v2 does to `SendEmail`. */
export class SesEndpoint {
  readonly mails: ReceivedMail[] = [];
  private server = createServer((request, response) => {
    void json(request).then((body) => {
      const { Destination, Content } = body as SendEmailRequest;
      const raw = Buffer.from(Content?.Raw?.Data ?? '', 'base64').toString();
      this.mails.push(new ReceivedMail(Destination?.ToAddresses ?? [], raw));
      response.setHeader('content-type', 'application/json');
      response.end(JSON.stringify({ MessageId: `ses-${this.mails.length}` }));
    });
  });

  static async start(cleanup: Cleanup): Promise<SesEndpoint> {
    const endpoint = new SesEndpoint();
    endpoint.server.listen(0, '127.0.0.1');
    await once(endpoint.server, 'listening');
    cleanup.add(() => {
      endpoint.server.closeAllConnections();
      endpoint.server.close();
    });
    return endpoint;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }
}
