import { DataSource } from 'typeorm';
import { InvalidOptionError } from '../../../lib/message/invalid-option.error';
import { createDialect } from '../../../lib/persistence/dialects';
import { createTables } from '../../../lib/persistence/tables';
import { UnsupportedDatabaseError } from '../../../lib/persistence/unsupported-database.error';

it('names what is supported when the database is not', () => {
  const dataSource = { options: { type: 'oracle' } } as unknown as DataSource;
  const call = () => createDialect(dataSource, createTables());
  expect(call).toThrow(UnsupportedDatabaseError);
  expect(call).toThrow(/"oracle"; supported: "postgres"/);
});

it.each(['', 'a.b', 'a"b', 'x'.repeat(50), 'ü'.repeat(30), 1])('refuses the table name %p', (outboxTable) => {
  expect(() => createTables({ outboxTable: outboxTable as string })).toThrow(InvalidOptionError);
});
