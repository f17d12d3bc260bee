import { Injectable } from '@nestjs/common';
import { EntityManager } from 'typeorm';
import { HandlerUnavailableError, OutboxHandler } from '../../../lib';
import { waitFor } from '../../support/wait-for';
import { LocalSetup } from './local-setup';

let isAway = true;
let retryAfter = 50;
const begun: string[] = [];

@Injectable()
class Handlers {
  constructor(private readonly manager: EntityManager) {}

  @OutboxHandler('within')
  within(payload: { name: string }): Promise<void> {
    return this.handle(payload);
  }

  @OutboxHandler('outside', { transactional: false, concurrency: 1 })
  outside(payload: { name: string }): Promise<void> {
    return this.handle(payload);
  }

  @OutboxHandler('other', { transactional: false })
  other({ name }: { name: string }): void {
    begun.push(name);
  }

  private async handle({ name }: { name: string }): Promise<void> {
    begun.push(name);
    await this.manager.query('INSERT INTO effect (name) VALUES ($1)', [name]);
    if (!isAway) return;
    await this.manager.query('DELETE FROM effect WHERE name = $1', [name]);
    throw new HandlerUnavailableError('the server is away', { retryAfter });
  }
}

let setup: LocalSetup;
beforeAll(async () => (setup = await LocalSetup.open()));
beforeEach(() => {
  isAway = true;
  retryAfter = 50;
  begun.length = 0;
});
afterEach(() => setup.reset());
afterAll(() => setup.close());

const start = () => setup.start({ providers: [Handlers], outbox: { maxAttempts: 1 } });
const done = () => waitFor('an empty outbox', async () => (await setup.rows()).length === 0);

describe('a local handler whose server is away', () => {
  it.each(['within', 'outside'])('G4: uses up no attempts (%s a transaction)', async (handler) => {
    const app = await start();
    await app.enqueue(handler, { name: 'a' });
    await waitFor('more runs than attempts are allowed', () => begun.length >= 3);
    for (const row of await setup.rows()) expect(row).toMatchObject({ status: 'ready', attempts: 0 });
    isAway = false;
    await done();
    expect(await setup.effects()).toEqual(['a']);
  });

  it('begins no other message before the pause is over, and holds up no other handler', async () => {
    const app = await start();
    retryAfter = 60_000;
    await app.enqueue('outside', { name: 'a' });
    await waitFor('the first run', () => begun.length === 1);
    await waitFor('the message to be given back', async () => (await setup.rows())[0]?.claim_token === null);
    await app.enqueue('outside', { name: 'b' });
    await app.enqueue('other', { name: 'c' });
    await waitFor('the other handler', () => begun.includes('c'));
    await app.dispatcher.runOnce();
    expect(begun).toEqual(['a', 'c']);
    expect(await setup.rows()).toMatchObject([
      { status: 'ready', attempts: 0 },
      { status: 'ready', attempts: 0 },
    ]);
  });

  it('goes on by itself when the pause is over, without a poll', async () => {
    const app = await setup.start({ providers: [Handlers], outbox: { pollInterval: '1h' } });
    await app.enqueue('outside', { name: 'a' });
    await waitFor('two runs', () => begun.length >= 2);
    isAway = false;
    await done();
  });
});
