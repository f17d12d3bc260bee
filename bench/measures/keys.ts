import { alternate, atLeast } from '../harness/alternate';
import type { Measure } from '../harness/measure';
import { product, raw } from './drain';

/** What order costs. */
export const keys: Measure = {
  name: 'keys',
  async run(world, { rounds, scale }) {
    const count = Math.round(20_000 * scale);
    const without = 'without keys';
    const many = '1,000 keys';
    return alternate({
      title: `Draining ${count} messages with ordering keys`,
      unit: 'msg/s',
      rounds,
      contenders: [
        await product(world, { name: without, count }),
        await product(world, { name: many, count, keys: 1_000 }),
      ],
      bars: ({ ratio }) => [atLeast('without keys', ratio(many, without), 0.75)],
    });
  },
};

export const hotKey: Measure = {
  name: 'hot-key',
  async run(world, { rounds, scale }) {
    const count = Math.round(3_000 * scale);
    const one = 'one confirm at a time, amqplib alone';
    const hot = 'one ordering key';
    return alternate({
      title: `Draining ${count} messages of one ordering key`,
      unit: 'msg/s',
      rounds,
      contenders: [await raw(world, one, count, 1), await product(world, { name: hot, count, keys: 1 })],
      bars: ({ ratio }) => [atLeast('one confirm at a time', ratio(hot, one), 0.8)],
    });
  },
};
