import { alternate, atLeast } from '../harness/alternate';
import type { Contender, Measure } from '../harness/measure';
import { Program } from '../harness/program';

interface Cost {
  readonly milliseconds: number;
  readonly statements: number;
}

const PLAIN = 'a transaction with one insert';
const BY_HAND = 'the same and an INSERT by hand';
const PUBLISH = 'the same and publish()';
const KINDS = { [PLAIN]: 'nothing', [BY_HAND]: 'by hand', [PUBLISH]: 'publish' };

/** What `publish()` costs the caller's transaction. */
export const publish: Measure = {
  name: 'publish',
  async run(world, { rounds, scale }) {
    const count = Math.round(2_000 * scale);
    const program = Program.start('programs/writer.ts', { DATABASE: await world.database('writer') });
    await program.call('ready');
    const statements = new Map<string, number>();
    let latest: { round: number; costs: Promise<Record<string, Cost>> } | undefined;
    // All kinds in one go, a transaction of each in turn: one costs less than a millisecond, and the machine is not that steady.
    const costsOf = (round: number) => {
      if (latest?.round !== round) {
        const kinds = Object.values(KINDS);
        const costs = program
          .call('empty')
          .then(() => program.call<Record<string, Cost>>('transactions', { kinds, count }));
        latest = { round, costs };
      }
      return latest.costs;
    };
    const contenders = Object.entries(KINDS).map(([name, kind]): Contender => ({
      name,
      async run(round) {
        const cost = (await costsOf(round))[kind]!;
        statements.set(name, cost.statements / count);
        return { value: (count / cost.milliseconds) * 1_000 };
      },
    }));
    try {
      return await alternate({
        title: `publish() inside a transaction, ${count} transactions of each kind, one after the other`,
        unit: 'transactions/s',
        rounds,
        contenders,
        bars: ({ ratio }) => {
          const more = statements.get(PUBLISH)! - statements.get(PLAIN)!;
          return [
            { text: 'one statement more than the transaction without it', value: more, met: more === 1 },
            atLeast('the INSERT by hand', ratio(PUBLISH, BY_HAND), 0.95),
          ];
        },
      });
    } finally {
      await program.stop();
    }
  },
};

/** Bulk writing. */
export const publishMany: Measure = {
  name: 'publish-many',
  async run(world, { rounds, scale }) {
    const count = Math.max(1_000, Math.round(20_000 * scale));
    const program = Program.start('programs/writer.ts', { DATABASE: await world.database('many') });
    await program.call('ready');
    const name = 'publishMany(1000)';
    let statements = 0;
    return alternate({
      title: `publishMany() with 1,000 messages, ${count} in all`,
      unit: 'rows/s',
      rounds,
      contenders: [
        {
          name,
          prepare: () => program.call('empty'),
          async run() {
            const cost = await program.call<Cost>('many', { count });
            // Without BEGIN and COMMIT.
            statements = cost.statements / (count / 1_000) - 2;
            return { value: (count / cost.milliseconds) * 1_000 };
          },
          stop: () => program.stop(),
        },
      ],
      bars: ({ value }) => [
        { text: '≥ 20,000 rows/s', value: value(name), met: value(name) >= 20_000 },
        { text: 'one statement', value: statements, met: statements === 1 },
      ],
    });
  },
};
