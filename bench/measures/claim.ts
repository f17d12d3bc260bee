import { alternate } from '../harness/alternate';
import type { Bar, Contender, Measure } from '../harness/measure';
import { OutboxTable, type Rows } from '../harness/outbox-table';
import type { World } from '../harness/world';

const BATCH = 500;
const DUE: Rows = { count: 20_000, status: 'ready' };

const ALONE = 'only due rows';
const BESIDE = 'beside 1,000,000 sent, 500,000 future and 50,000 dead rows';
const HOT = 'beside one busy key with 100,000 waiting rows';

/** One claim of 500 rows, on tables with ever more rows that are not its business. */
export const claim: Measure = {
  name: 'claim',
  async run(world, { rounds, scale }) {
    const sized = (rows: Rows): Rows => ({ ...rows, count: Math.round(rows.count * scale) });
    const contenders = [
      await claimer(world, ALONE, 'alone', [DUE]),
      await claimer(
        world,
        BESIDE,
        'beside',
        [
          { count: 1_000_000, status: 'sent' },
          { count: 500_000, status: 'scheduled' },
          { count: 50_000, status: 'dead' },
          DUE,
        ].map((rows) => sized(rows as Rows)),
      ),
      await claimer(
        world,
        HOT,
        'hot',
        [{ count: 100_000, status: 'ready', key: 'hot' }, DUE].map((rows) => sized(rows as Rows)),
      ),
    ];
    return alternate({
      title: `A claim of ${BATCH} messages`,
      unit: 'ms',
      rounds,
      contenders,
      bars: ({ value, ratio }): Bar[] => [
        {
          text: `≤ 1.3 × ${ALONE}: ${BESIDE}`,
          value: ratio(BESIDE, ALONE),
          met: ratio(BESIDE, ALONE) <= 1.3,
        },
        ...[BESIDE, HOT].map((name) => ({
          text: `≤ 60 ms: ${name}`,
          value: value(name),
          met: value(name) <= 60,
        })),
      ],
    });
  },
};

async function claimer(world: World, name: string, label: string, rows: readonly Rows[]): Promise<Contender> {
  const table = await OutboxTable.create(await world.database(`claim-${label}`));
  for (const each of rows) {
    await table.insert(each);
    if (each.key) await table.claimFirstOf(each.key);
  }
  return {
    name,
    async prepare() {
      await table.vacuum();
    },
    async run() {
      // Several, since one of a few milliseconds says little.
      const times: number[] = [];
      for (let n = 0; n < 5; n++) {
        const { milliseconds, claimed } = await table.claim(BATCH);
        if (claimed !== BATCH) throw new Error(`A claim got ${claimed} rows`);
        times.push(milliseconds);
      }
      return { value: times.sort((a, b) => a - b)[2]! };
    },
    stop: () => table.close(),
  };
}
