import { parse } from 'node:path';
import { counted } from '../harness/counted';
import type { Contender } from '../harness/measure';
import { Program } from '../harness/program';
import type { World } from '../harness/world';

interface Rival {
  readonly name: string;
  /** Of the program. */
  readonly file: string;
  /** As many as it sends in a few seconds. */
  readonly messages: number;
}

export const RIVALS = {
  byHand: { name: 'SQL and amqplib by hand', file: 'programs/by-hand.ts', messages: 20_000 },
  pgBoss: {
    name: 'pg-boss 12, batches of 500, confirms in flight',
    file: 'rivals/pg-boss.mjs',
    messages: 20_000,
  },
  graphileWorker: {
    name: 'graphile-worker 0.17, batched',
    file: 'rivals/graphile-worker.mjs',
    messages: 10_000,
  },
  fullstackhouse: {
    name: '@fullstackhouse/nestjs-outbox 4.1',
    file: 'rivals/fullstackhouse.mjs',
    messages: 1_000,
  },
  transactionalOutbox: {
    name: 'pg-transactional-outbox 0.5',
    file: 'rivals/pg-transactional-outbox.mjs',
    messages: 500,
  },
} satisfies Record<string, Rival>;

/** A rival, driven as its documentation says, with a confirmed publish as its handler. */
export function rival(world: World, { name, file, messages }: Rival, scale: number): Contender {
  const count = Math.max(10, Math.round(messages * scale));
  let started: Promise<{ program: Program; queue: string }> | undefined;
  const start = async () => {
    const label = parse(file).name;
    const queue = await world.queue(label);
    const program = Program.start(file, { DATABASE: await world.database(label) });
    await program.call('ready', { queue });
    return { program, queue };
  };
  return {
    name,
    async prepare() {
      const { program } = await (started ??= start());
      await program.call('fill', { count });
    },
    async run() {
      const { program, queue } = await started!;
      const milliseconds = await program.call<number>('drain', { count });
      return counted(world, queue, count, milliseconds);
    },
    async stop() {
      await (await started)?.program.stop();
    },
  };
}
