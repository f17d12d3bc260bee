import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { printPostgresSql } from './print-sql';

const file = join(__dirname, '../../../sql/postgres.sql');

// UPDATE_SQL=1 npx jest sql-file
it('sql/postgres.sql is what the tables say', async () => {
  const printed = await printPostgresSql();
  if (process.env.UPDATE_SQL) writeFileSync(file, printed);
  expect(readFileSync(file, 'utf8')).toBe(printed);
});
