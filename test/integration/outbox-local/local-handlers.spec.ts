import { Injectable } from '@nestjs/common';
import { EntityManager } from 'typeorm';
import {
  NonRetryableError,
  outboxContext,
  OutboxHandler,
  OutboxService,
  type OutboxHandlerContext,
} from '../../../lib';
import { waitFor } from '../../support/wait-for';
import { LocalSetup } from './local-setup';

const seen: { handler: string; payload: unknown; context: OutboxHandlerContext }[] = [];
let fails = 0;

@Injectable()
class Handlers {
  constructor(
    private readonly manager: EntityManager,
    private readonly outbox: OutboxService,
  ) {}

  @OutboxHandler('save')
  async save(payload: { name: string }, context: OutboxHandlerContext): Promise<void> {
    seen.push({ handler: 'save', payload, context });
    await this.manager.query('INSERT INTO effect (name) VALUES ($1)', [payload.name]);
    expect(outboxContext()).toBe(context);
    if (fails-- > 0) throw new Error('not this time');
  }

  @OutboxHandler('forward')
  async forward(payload: unknown): Promise<void> {
    await this.outbox.enqueue('save', payload);
    if (fails-- > 0) throw new Error('not this time');
  }

  @OutboxHandler('outside', { transactional: false })
  async outside(payload: { name: string }, context: OutboxHandlerContext): Promise<void> {
    seen.push({ handler: 'outside', payload, context });
    await this.manager.query('INSERT INTO effect (name) VALUES ($1)', [payload.name]);
    if (fails-- > 0) throw new Error('not this time');
  }

  @OutboxHandler('hopeless')
  hopeless(): void {
    throw new NonRetryableError('no such address');
  }
}

let setup: LocalSetup;
beforeAll(async () => (setup = await LocalSetup.open()));
beforeEach(() => {
  seen.length = 0;
  fails = 0;
});
afterEach(() => setup.reset());
afterAll(() => setup.close());

const start = () => setup.start({ providers: [Handlers] });
const done = () => waitFor('an empty outbox', async () => (await setup.rows()).length === 0);

describe('a local handler', () => {
  it('runs after the commit, without RabbitMQ, and gets payload and context', async () => {
    const app = await start();
    const id = await app.enqueue('save', { name: 'a' }, { headers: { tenant: 'x' }, orderingKey: 'k' });
    await done();
    expect(await setup.effects()).toEqual(['a']);
    expect(seen).toEqual([
      {
        handler: 'save',
        payload: { name: 'a' },
        context: {
          handler: 'save',
          messageId: id,
          attempt: 1,
          correlationId: undefined,
          orderingKey: 'k',
          createdAt: expect.any(Date) as Date,
          headers: { tenant: 'x' },
          signal: expect.any(AbortSignal) as AbortSignal,
        },
      },
    ]);
  });

  it('G1: runs if and only if the transaction that enqueued it commits', async () => {
    const app = await start();
    const rolledBack = app.context.get(EntityManager).transaction(async () => {
      await app.outbox.enqueue('save', { name: 'never' });
      throw new Error('rolled back');
    });
    await expect(rolledBack).rejects.toThrow('rolled back');
    await app.enqueue('save', { name: 'a' });
    await done();
    expect(await setup.effects()).toEqual(['a']);
  });

  it('G5: a failed run leaves nothing behind and is tried again, with the same id', async () => {
    const app = await start();
    fails = 2;
    const id = await app.enqueue('forward', { name: 'a' });
    await done();
    expect(await setup.effects()).toEqual(['a']);
    fails = 2;
    seen.length = 0;
    const other = await app.enqueue('save', { name: 'b' });
    await done();
    expect(await setup.effects()).toEqual(['a', 'b']);
    expect(seen.map(({ context }) => [context.messageId, context.attempt])).toEqual([
      [other, 1],
      [other, 2],
      [other, 3],
    ]);
    expect(id).not.toBe(other);
  });

  it('a run without a transaction is settled after it, and tried again with the same id', async () => {
    const app = await start();
    fails = 1;
    const id = await app.enqueue('outside', { name: 'a' });
    await done();
    expect(await setup.effects()).toEqual(['a', 'a']);
    expect(seen.map(({ context }) => [context.messageId, context.attempt])).toEqual([
      [id, 1],
      [id, 2],
    ]);
  });

  it.each(['hopeless'])('G11: %s is dead at once with its error', async (name) => {
    const app = await start();
    await app.enqueue(name);
    const [row] = await waitFor('a dead message', async () => {
      const rows = await setup.rows();
      return rows[0]?.status === 'dead' && rows;
    });
    expect(row).toMatchObject({ attempts: 1, claim_token: null });
    expect(row?.last_error).toContain('no such address');
  });

  it('runOnce() works it off and tells the counts', async () => {
    const app = await setup.start({ providers: [Handlers], outbox: { dispatch: 'off' } });
    await app.enqueue('save', { name: 'a' });
    await app.enqueue('outside', { name: 'b' });
    await app.enqueue('hopeless');
    fails = 0;
    expect(await app.dispatcher.runOnce()).toEqual({
      end: 'idle',
      sent: 2,
      failed: 0,
      dead: 1,
      unknown: 0,
      released: 0,
    });
    expect(await setup.effects()).toEqual(['a', 'b']);
  });
});
