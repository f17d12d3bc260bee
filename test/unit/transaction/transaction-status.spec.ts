import { EventEmitter } from 'node:events';
import type { QueryRunner } from 'typeorm';
import { PostgresTransactionGuard } from '../../../lib/persistence/postgres/transaction-status';

/** A client of pg in the state that a test needs. */
class FakeClient extends EventEmitter {
  readonly connection = new EventEmitter();
  readyForQuery = true;

  ready(status: string) {
    this.readyForQuery = true;
    this.connection.emit('readyForQuery', { status });
  }
}

class FakeClientThatTells extends FakeClient {
  status: string | null = null;
  getTransactionStatus = () => this.status;
}

const runnerOf = (client: FakeClient) =>
  ({ isReleased: false, connect: () => Promise.resolve(client) }) as unknown as QueryRunner;

describe('PostgresTransactionGuard', () => {
  const guard = new PostgresTransactionGuard();

  it.each([
    ['T', undefined, undefined, false],
    ['E', 'failed', undefined, false],
    ['I', 'ended', 'ended', true],
  ])(
    'status %s: COMMIT refused as %s, statements as %s, idle %s',
    async (status, commit, statement, idle) => {
      const client = new FakeClientThatTells();
      client.status = status;
      const runner = runnerOf(client);
      const reasonOf = (ask: () => Promise<void> | void) =>
        Promise.resolve()
          .then(ask)
          .catch((error: { reason?: string }) => error.reason);
      // The first time the client has to be found, then it is known.
      for (let i = 0; i < 2; i++) {
        expect(await reasonOf(() => guard.assertAlive(runner))).toBe(commit);
        expect(await reasonOf(() => guard.assertOpen(runner))).toBe(statement);
        expect(await guard.isIdle(runner)).toBe(idle);
      }
    },
  );

  it('waits for the status that follows an error', async () => {
    const client = new FakeClientThatTells();
    client.status = 'T';
    client.readyForQuery = false;
    const asked = guard.assertAlive(runnerOf(client));
    setImmediate(() => {
      client.status = 'E';
      client.ready('E');
    });
    await expect(asked).rejects.toMatchObject({ reason: 'failed' });
    expect(client.connection.eventNames()).toEqual([]);
  });

  it('does not wait for a connection that ends', async () => {
    const client = new FakeClientThatTells();
    client.readyForQuery = false;
    const asked = guard.isIdle(runnerOf(client));
    setImmediate(() => client.connection.emit('end'));
    await asked;
  });

  it('an older pg that does not tell is listened to', async () => {
    const client = new FakeClient();
    const runner = runnerOf(client);
    const stop = await guard.watch(runner, () => undefined);
    await guard.assertAlive(runner); // nothing heard yet: taken for alive
    client.ready('E');
    await expect((async () => guard.assertAlive(runner))()).rejects.toMatchObject({ reason: 'failed' });
    client.ready('I');
    await expect((async () => guard.assertOpen(runner))()).rejects.toMatchObject({ reason: 'ended' });
    client.ready('T');
    await guard.assertAlive(runner);
    stop();
  });

  it('listens once to a client that the pool hands out again, and leaves no error listener', async () => {
    const client = new FakeClient();
    for (let i = 0; i < 3; i++) (await guard.watch(runnerOf(client), () => undefined))();
    expect(client.connection.listenerCount('readyForQuery')).toBe(1);
    expect(client.listenerCount('error')).toBe(0);
  });
});
