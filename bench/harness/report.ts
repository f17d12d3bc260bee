import { cpus } from 'node:os';
import { Client } from 'pg';
import { connect } from 'amqplib';
import type { MeasureReport } from './measure';
import { AMQP_URL, DATABASE_URL } from './servers';

const digits = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const fraction = new Intl.NumberFormat('en', { maximumFractionDigits: 2, minimumFractionDigits: 2 });

/** Small values with two digits after the point. */
const figure = (value: number): string => (Math.abs(value) < 100 ? fraction : digits).format(value);

/** As Markdown, which is readable in a terminal too. */
export function table({ title, unit, rounds, results, bars }: MeasureReport): string {
  const lines = [
    `## ${title}`,
    '',
    `Median of ${rounds} rounds, the lowest and the highest.`,
    '',
    `|  | ${unit} | lowest | highest | lost | double effects |`,
    '|---|--:|--:|--:|--:|--:|',
    ...results.map(
      ({ contender, median, low, high, lost, double }) =>
        `| ${contender} | ${figure(median)} | ${figure(low)} | ${figure(high)} | ${lost} | ${double} |` +
        (lost + double > 0 ? ' INVALID' : ''),
    ),
    '',
    ...bars.map(({ text, value, met }) => `- ${met ? 'met' : 'MISSED'}: ${figure(value)} (bar: ${text})`),
  ];
  return lines.join('\n');
}

/** Machine and versions. */
export async function environment(): Promise<string> {
  const client = new Client({ connectionString: DATABASE_URL });
  await client.connect();
  const { rows } = await client.query<{ server_version: string }>('SHOW server_version');
  await client.end();
  const connection = await connect(AMQP_URL);
  const rabbit = String(connection.connection.serverProperties.version);
  await connection.close();
  const [cpu] = cpus();
  return [
    '# Benchmarks',
    '',
    'Written by `npm run bench`. Contenders take turns within one run; ratios are medians of the ratios within a round.',
    'Everything on one machine; bodies of 200 bytes, persistent, confirmed, mandatory.',
    '',
    `- ${cpus().length} cores (${cpu?.model.trim()})`,
    `- Node ${process.version}, PostgreSQL ${rows[0]?.server_version}, RabbitMQ ${rabbit}`,
  ].join('\n');
}
