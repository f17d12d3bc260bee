import { SchedulerRegistry } from '@nestjs/schedule';
import type { DataSource } from 'typeorm';
import { resolveOptions } from '../../../lib/resolved-options';
import { OutboxDispatcher } from '../../../lib/outbox/outbox-dispatcher';
import { FakeDatabase, FakeTransport } from './fake-ports';

// The ports need no connection; everything else is as in production.
jest.mock('../../../lib/transaction/own-work', () =>
  jest.requireActual<object>('./own-work-without-database'),
);

const HOUR = 3_600_000;

describe('C56, G4: an hour without the broker, with the default options', () => {
  let database: FakeDatabase;
  let transport: FakeTransport;
  let dispatcher: OutboxDispatcher;

  beforeEach(() => {
    jest.useFakeTimers();
    database = new FakeDatabase();
    transport = new FakeTransport();
    const silent = () => undefined;
    dispatcher = new OutboxDispatcher({
      dataSource: {} as DataSource,
      dialect: database.dialect,
      transport,
      options: resolveOptions().outbox,
      scheduler: new SchedulerRegistry(),
      logger: { log: silent, warn: silent, error: silent },
    });
  });
  afterEach(async () => {
    const stopped = dispatcher.stop({ timeout: 10 });
    await jest.advanceTimersByTimeAsync(10_000);
    await stopped;
    jest.useRealTimers();
  });

  const publish = (count: number) =>
    database.add(...Array.from({ length: count }, (_, n) => ({ orderingKey: n % 2 ? `k${n % 50}` : null })));
  const untouched = () => database.rows.every(({ status, attempts }) => status === 'ready' && attempts === 0);

  it.each(['disconnected', 'blocked'] as const)(
    '%s: none is dead, none has used an attempt, and all are sent afterwards',
    async (reason) => {
      publish(1_000);
      transport.becomes({ available: false, reason });
      dispatcher.start();
      await jest.advanceTimersByTimeAsync(HOUR);
      expect(untouched()).toBe(true);
      transport.becomes({ available: true });
      await jest.advanceTimersByTimeAsync(10_000);
      expect(database.rows.every(({ status }) => status === 'sent')).toBe(true);
      expect(transport.sent).toHaveLength(1_000);
    },
  );

  it.each([
    ['a connection that breaks during each try', { kind: 'unknown', error: 'cut' }],
    ['no channel for any message', { kind: 'unsent', error: 'no channel' }],
    ['no answer to any message', { kind: 'unknown', error: 'no confirm', unanswered: true }],
  ] as const)('%s: the same', async (_, outcome) => {
    publish(50);
    transport.answer = () => outcome;
    dispatcher.start();
    await jest.advanceTimersByTimeAsync(HOUR);
    expect(untouched()).toBe(true);
    // Pauses, and no hot loop: an hour is 720 pauses of 5 s.
    expect(transport.sent.length).toBeLessThan(800 * 50);
    transport.answer = () => ({ kind: 'sent' });
    await jest.advanceTimersByTimeAsync(2 * 60_000);
    expect(database.rows.every(({ status }) => status === 'sent')).toBe(true);
  });
});
