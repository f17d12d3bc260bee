import { SchedulerRegistry } from '@nestjs/schedule';
import type { DataSource } from 'typeorm';
import { type OutboxOptions } from '../../../lib/inbox-outbox.options';
import { resolveOptions } from '../../../lib/resolved-options';
import { NonRetryableError } from '../../../lib/message/non-retryable.error';
import { OutboxDispatcher } from '../../../lib/outbox/outbox-dispatcher';
import type { SendOutcome } from '../../../lib/transport/transport';
import { FakeDatabase, FakeTransport } from './fake-ports';

// The ports need no connection; everything else is as in production.
jest.mock('../../../lib/transaction/own-work', () =>
  jest.requireActual<object>('./own-work-without-database'),
);

describe('What a transport says about a failure', () => {
  async function fail(outcome: SendOutcome, options: OutboxOptions = {}, retry: string | null = null) {
    const database = new FakeDatabase();
    const transport = new FakeTransport();
    transport.answer = () => outcome;
    database.add({ retry });
    const silent = { log: () => undefined, warn: () => undefined, error: () => undefined };
    const dispatcher = new OutboxDispatcher({
      dataSource: {} as DataSource,
      dialect: database.dialect,
      transport,
      options: resolveOptions({ outbox: options }).outbox,
      scheduler: new SchedulerRegistry(),
      logger: silent,
    });
    await dispatcher.runOnce();
    await dispatcher.stop();
    return database.rows[0];
  }
  const failed = (more: object = {}): SendOutcome => ({ kind: 'failed', error: 'no', ...more });

  it('is tried again by default', async () => {
    expect(await fail(failed())).toMatchObject({ status: 'scheduled', attempts: 1, error: 'no' });
  });

  it.each<[string, SendOutcome]>([
    ['it says so', failed({ permanent: true })],
    ['what was thrown is not retryable', failed({ cause: new NonRetryableError('no') })],
  ])('is the end at once when %s', async (_, outcome) => {
    expect(await fail(outcome)).toMatchObject({ status: 'dead', attempts: 1, error: 'no' });
  });

  it('is judged by retryIf, which gets what was thrown, or else an error with the text', async () => {
    const asked: unknown[] = [];
    const retryIf = (error: unknown) => asked.push(error) < 0;
    const cause = new RangeError('far');
    expect(await fail(failed({ cause }), { retryIf })).toMatchObject({ status: 'dead' });
    expect(await fail(failed(), { retryIf })).toMatchObject({ status: 'dead' });
    expect(asked).toEqual([cause, new Error('no')]);
  });

  it("is judged by the message's own policy", async () => {
    expect(await fail(failed(), {}, '{"maxAttempts":1}')).toMatchObject({ status: 'dead' });
  });

  it('G4: uses no attempt when nobody knows whether it arrived, whatever retryIf says', async () => {
    const retryIf = () => false;
    expect(await fail({ kind: 'unknown', error: 'cut' }, { retryIf })).toMatchObject({
      status: 'ready',
      attempts: 0,
    });
  });
});
