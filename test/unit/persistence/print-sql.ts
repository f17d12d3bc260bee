import { DataSource } from 'typeorm';
import { dialectOf } from '../../../lib/persistence/migration';

const HEADER = `-- The tables of nestjs-inbox-outbox under their default names; made from lib/persistence/tables.ts.
--
-- Plain CREATE TABLE on purpose: run on a database that has the tables, it fails and changes nothing, instead of leaving
-- an older shape as it is without a word. The lock table may exist already (ShedLock's own); it only gets the column
-- that it lacks.
`;

/** The text of sql/postgres.sql. */
export async function printPostgresSql(): Promise<string> {
  const dialect = await dialectOf(new DataSource({ type: 'postgres' }));
  return `${HEADER}\nBEGIN;\n\n${dialect.createTablesSql().join(';\n\n')};\n\nCOMMIT;\n`;
}
