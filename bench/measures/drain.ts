import type { Client } from 'pg';
import { alternate, atLeast } from '../harness/alternate';
import { counted } from '../harness/counted';
import type { Contender, Measure } from '../harness/measure';
import { Program } from '../harness/program';
import type { World } from '../harness/world';
import { RIVALS, rival } from './rivals';

const MESSAGES = 20_000;
const IN_FLIGHT = 500;

export const RAW = `amqplib alone, ${IN_FLIGHT} confirms in flight`;
export const PRODUCT = 'nestjs-inbox-outbox';

/** A backlog of 20,000 messages without keys, one process. */
export const drain: Measure = {
  name: 'drain',
  async run(world, { rounds, scale }) {
    const count = Math.round(MESSAGES * scale);
    const nest = rival(world, RIVALS.fullstackhouse, scale);
    return alternate({
      title: `Draining a backlog of ${count} messages without keys, one process`,
      unit: 'msg/s',
      rounds,
      contenders: [
        await raw(world, RAW, count, IN_FLIGHT),
        await product(world, { name: PRODUCT, count }),
        rival(world, RIVALS.byHand, scale),
        rival(world, RIVALS.pgBoss, scale),
        rival(world, RIVALS.graphileWorker, scale),
        nest,
        rival(world, RIVALS.transactionalOutbox, scale),
      ],
      bars: ({ ratio, value }) => [
        atLeast('raw confirms in flight', ratio(PRODUCT, RAW), 0.9),
        {
          text: '≥ 5,000 msg/s where raw reaches 8,000',
          value: value(PRODUCT),
          met: value(PRODUCT) >= 5_000 || value(RAW) < 8_000,
        },
        atLeast(`the nearest Nest rival (${nest.name})`, ratio(PRODUCT, nest.name), 10),
      ],
    });
  },
};

export async function raw(world: World, name: string, count: number, inFlight: number): Promise<Contender> {
  const queue = await world.queue(`raw-${inFlight}`);
  const program = Program.start('programs/limit.ts');
  return {
    name,
    async run() {
      const milliseconds = await program.call<number>('publish', { queue, count, inFlight });
      return counted(world, queue, count, milliseconds);
    },
    stop: () => program.stop(),
  };
}

export interface ProductSettings {
  readonly name: string;
  readonly count: number;
  readonly keys?: number;
}

export async function product(world: World, { name, count, keys }: ProductSettings): Promise<Contender> {
  const label = `product-${keys ?? 0}`;
  const queue = await world.queue(label);
  const url = await world.database(label);
  const program = Program.start('programs/product.ts', { DATABASE: url });
  await program.call('ready');
  const sql: Client = await world.sql(url);
  return {
    name,
    async prepare() {
      await sql.query('VACUUM ANALYZE outbox_message');
      await program.call('fill', { queue, count, keys });
    },
    async run() {
      const { milliseconds } = await program.call<{ milliseconds: number }>('drain');
      return counted(world, queue, count, milliseconds);
    },
    stop: () => program.stop(),
  };
}
