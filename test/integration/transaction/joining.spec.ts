import { Module } from '@nestjs/common';
import { Injectable } from '@nestjs/common';
import { Test, type TestingModule } from '@nestjs/testing';
import { getDataSourceToken, InjectEntityManager, InjectRepository, TypeOrmModule } from '@nestjs/typeorm';
import {
  DataSource,
  EntityManager,
  EventSubscriber,
  Repository,
  type EntitySubscriberInterface,
  type InsertEvent,
} from 'typeorm';
import { PostgresTransactionGuard } from '../../../lib/persistence/postgres/transaction-status';
import { installBridge } from '../../../lib/transaction/bridge';
import { createTestDatabase, type TestDatabase } from '../../support/test-database';
import { ActiveNote, Chapter, ENTITIES, Folder, Note, Rollback } from './fixtures';

@Injectable()
class NoteRepository extends Repository<Note> {
  constructor(dataSource: DataSource) {
    super(Note, dataSource.createEntityManager());
  }
}

@Injectable()
class NoteService {
  readonly captured: EntityManager;
  constructor(
    @InjectRepository(Note) readonly notes: Repository<Note>,
    @InjectEntityManager() readonly manager: EntityManager,
    readonly custom: NoteRepository,
    readonly dataSource: DataSource,
  ) {
    this.captured = dataSource.manager;
  }
}

/** Writes a second row for each note called "watched", through a repository and not through the event's manager. */
@EventSubscriber()
class NoteSubscriber implements EntitySubscriberInterface<Note> {
  static write: (() => Promise<unknown>) | undefined;
  listenTo = () => Note;
  async afterInsert(event: InsertEvent<Note>) {
    if (event.entity.text === 'watched') await NoteSubscriber.write?.();
  }
}

const TABLES = ['notes', 'folders', 'active_notes', 'chapters'];

describe('what runs inside a transaction joins it', () => {
  let database: TestDatabase;
  let app: TestingModule;
  let service: NoteService;
  let undo: () => void;

  const rows = async () => {
    const counts = await database.query<{ sum: string }>(
      `SELECT (${TABLES.map((table) => `(SELECT count(*) FROM ${table})`).join(' + ')}) AS sum`,
    );
    return Number(counts[0]?.sum);
  };

  beforeAll(async () => {
    database = await createTestDatabase({ prefix: 'joining' });
    @Module({
      imports: [
        TypeOrmModule.forRoot({
          type: 'postgres',
          url: database.url,
          entities: ENTITIES,
          subscribers: [NoteSubscriber],
          synchronize: true,
          poolSize: 4,
          extra: { connectionTimeoutMillis: 10_000 },
        }),
        TypeOrmModule.forFeature(ENTITIES),
      ],
      providers: [NoteService, NoteRepository],
    })
    class AppModule {}
    app = await Test.createTestingModule({ imports: [AppModule] }).compile();
    service = app.get(NoteService);
    extended = service.notes.extend({
      write(this: Repository<Note>, text: string) {
        return this.save({ text });
      },
    });
    // The bridge comes last: everything injected, and the custom repository, exist already.
    undo = installBridge(app.get<DataSource>(getDataSourceToken()), new PostgresTransactionGuard());
    NoteSubscriber.write = () => service.notes.insert({ text: 'by the subscriber' });
  });

  afterAll(async () => {
    undo?.();
    await app?.close();
    await database?.close();
  });

  beforeEach(async () => {
    await database.query(`TRUNCATE ${TABLES.join(', ')}, chapters_closure RESTART IDENTITY CASCADE`);
  });

  // Made once, like the repositories that applications export as constants.
  let extended: Repository<Note> & { write(text: string): Promise<unknown> };

  const ways: [name: string, write: () => Promise<unknown>, written?: number][] = [
    ['an injected repository', () => service.notes.save({ text: 'x' })],
    ['a custom repository made before the bridge', () => service.custom.save({ text: 'x' })],
    ['a captured dataSource.manager', () => service.captured.save(Note, { text: 'x' })],
    ['@InjectEntityManager()', () => service.manager.insert(Note, { text: 'x' })],
    [
      'manager.transaction() of an injected manager',
      () => service.manager.transaction((manager) => manager.insert(Note, { text: 'x' })),
    ],
    [
      'repository.createQueryBuilder()',
      () => service.notes.createQueryBuilder().insert().values({ text: 'x' }).execute(),
    ],
    [
      'dataSource.createQueryBuilder()',
      () => service.dataSource.createQueryBuilder().insert().into(Note).values({ text: 'x' }).execute(),
    ],
    ['dataSource.query()', () => service.dataSource.query('INSERT INTO notes (text) VALUES ($1)', ['x'])],
    ['manager.query()', () => service.manager.query(`INSERT INTO notes (text) VALUES ('x')`)],
    ['dataSource.sql``', () => service.dataSource.sql`INSERT INTO notes (text) VALUES (${'x'})`],
    ['a repository made with extend()', () => extended.write('x')],
    [
      'a tree repository',
      () => service.dataSource.getTreeRepository(Chapter).save({ title: 'x', children: [] }),
    ],
    ['an active-record entity', () => ActiveNote.create({ text: 'x' }).save()],
    ['code of a subscriber', () => service.notes.save({ text: 'watched' }), 2],
  ];

  it.each(ways)('%s: rolled back with it', async (_name, write) => {
    const failed = service.dataSource.transaction(async () => {
      await write();
      throw new Rollback();
    });
    await expect(failed).rejects.toThrow(Rollback);
    expect(await rows()).toBe(0);
  });

  it.each(ways)('%s: unseen by others until it is committed', async (_name, write, written = 1) => {
    await service.dataSource.transaction(async () => {
      await write();
      expect(await rows()).toBe(0);
    });
    expect(await rows()).toBe(written);
  });

  it.each(ways)('%s: writes by itself outside of a transaction', async (_name, write, written = 1) => {
    await write();
    expect(await rows()).toBe(written);
  });

  it('a query builder made before the transaction joins when it is executed', async () => {
    const builder = service.dataSource.createQueryBuilder().insert().into(Note).values({ text: 'x' });
    const failed = service.dataSource.transaction(async () => {
      await builder.execute();
      await service.notes.count(); // the builder has left the connection with the transaction
      throw new Rollback();
    });
    await expect(failed).rejects.toThrow(Rollback);
    expect(await rows()).toBe(0);
  });

  it('a tree repository reads inside', async () => {
    const trees = service.dataSource.getTreeRepository(Chapter);
    await service.dataSource.transaction(async () => {
      const root = await trees.save({ title: 'root' } as Chapter);
      await trees.save({ title: 'leaf', parent: root } as Chapter);
      expect(await trees.countDescendants(root)).toBe(2);
      const [tree] = await trees.findTrees();
      expect(tree?.children.map((child) => child.title)).toEqual(['leaf']);
    });
  });

  it('a lazy relation of an entity loaded before the transaction is read inside it', async () => {
    const folder = await service.dataSource.getRepository(Folder).save({ name: 'f' } as Folder);
    const loaded = await service.dataSource.getRepository(Folder).findOneByOrFail({ id: folder.id });
    await service.dataSource.transaction(async () => {
      await service.notes.save({ text: 'uncommitted', folder });
      expect((await loaded.notes).map((note) => note.text)).toEqual(['uncommitted']);
    });
  });

  it('a lazy relation of an entity loaded inside the transaction works after its end', async () => {
    const folder = await service.dataSource.getRepository(Folder).save({ name: 'f' } as Folder);
    await service.notes.save({ text: 'kept', folder });
    const loaded = await service.dataSource.transaction(() =>
      service.dataSource.getRepository(Folder).findOneByOrFail({ id: folder.id }),
    );
    expect((await loaded.notes).map((note) => note.text)).toEqual(['kept']);
  });

  it('queryRunner.manager.transaction(cb) is joined', async () => {
    const runner = service.dataSource.createQueryRunner();
    try {
      const failed = runner.manager.transaction(async () => {
        await service.notes.save({ text: 'x' });
        throw new Rollback();
      });
      await expect(failed).rejects.toThrow(Rollback);
      expect(await rows()).toBe(0);
      await runner.manager.transaction(() => service.notes.save({ text: 'x' }));
      expect(await rows()).toBe(1);
    } finally {
      await runner.release();
    }
  });

  it.each(['READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE'] as const)(
    'manager.transaction("%s", cb) has that level for what joins',
    async (level) => {
      await service.manager.transaction(level, async () => {
        const [{ transaction_isolation: found }] = await service.dataSource.query(
          'SHOW transaction_isolation',
        );
        expect(found).toBe(level.toLowerCase());
      });
    },
  );
});
