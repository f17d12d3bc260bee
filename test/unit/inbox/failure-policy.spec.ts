import { Logger } from '@nestjs/common';
import { FailurePolicy } from '../../../lib/inbox/failure-policy';
import type { IdentifiedDelivery } from '../../../lib/inbox/delivery';
import { Pauses } from '../../../lib/inbox/pauses';
import type { InboxStore } from '../../../lib/inbox/inbox-store';

describe("the failure policy 'retry'", () => {
  beforeAll(() => void Logger.overrideLogger(false));

  it('G11: a failure that cannot be written yet is tried again in place; nothing is acked before it is kept', async () => {
    const log: string[] = [];
    const keeper = {
      keep: () => {
        log.push('keep');
        return log.length < 3
          ? Promise.reject(new Error('the database is away'))
          : Promise.resolve({ kind: 'open' as const, delay: 1_000 });
      },
    };
    const policy = new FailurePolicy({} as InboxStore, keeper, new Pauses(), { raise: () => undefined });
    const delivery = {
      policy: { consumer: 'c', onFailure: 'retry', retry: { next: () => 1_000 } },
      message: { content: Buffer.of(), fields: { exchange: '', routingKey: 'q' }, properties: {} },
      key: { consumer: 'c', messageId: 'm' },
    } as unknown as IdentifiedDelivery;
    const settlement = await policy.apply(delivery, { error: new Error('failed'), deliveries: 0 });
    log.push(settlement.kind);
    expect(log).toEqual(['keep', 'keep', 'keep', 'ack']);
  });
});
