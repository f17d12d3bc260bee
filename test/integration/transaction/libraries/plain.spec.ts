import type { LibraryApp } from './library-app';
import { describeLibrary } from './library-contract';

describe('Transactions of TypeORM alone', () => {
  const app: () => LibraryApp = describeLibrary({
    name: 'TypeORM',
    imports: [],
    required: (work, name) => app().dataSource(name).transaction(work),
    requiresNew: (work, name) => app().transactions.outside(() => app().dataSource(name).transaction(work)),
  });

  test('neither of the other libraries is loaded', () => {
    const loaded = Object.keys(require.cache).filter((file) =>
      /node_modules.*(typeorm-transactional|nestjs-cls|cls-hooked|opentelemetry)/.test(file),
    );
    expect(loaded).toEqual([]);
  });
});
