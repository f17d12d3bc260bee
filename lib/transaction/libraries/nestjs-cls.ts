import { EntityManager, type DataSource } from 'typeorm';
import { dataSourceOf } from '../data-source-of';
import { runOutsideScopeOf } from '../transaction-context';
import { asLibrary } from './library-call';
import type { TransactionLibrary } from './transaction-library';

type Work<T> = () => Promise<T>;

/** What an adapter of @nestjs-cls/transactional gives to the library: how to open a transaction, and what is there without one. */
interface AdapterOptions {
  wrapWithTransaction<T>(options: unknown, work: Work<T>, setClient: (client: unknown) => void): Promise<T>;
  getFallbackInstance(): unknown;
}

/** What is used of `TransactionHost`, which stands behind `@Transactional()`. There is one for each connection. */
export interface TransactionHost {
  withTransaction<T>(propagation: 'REQUIRES_NEW', work: Work<T>): Promise<T>;
  withoutTransaction<T>(work: Work<T>): Promise<T>;
  isTransactionActive(): boolean;
  /** Only hidden from TypeScript. */
  readonly _options: AdapterOptions;
}

/** By its shape: the library is an optional peer that is not imported, and there may be several copies. */
export function isTransactionHost(value: unknown): value is TransactionHost {
  if (typeof value !== 'object' || value === null || value.constructor?.name !== 'TransactionHost')
    return false;
  const host = value as Partial<TransactionHost>;
  return (
    typeof host.withTransaction === 'function' &&
    typeof host.withoutTransaction === 'function' &&
    typeof host.isTransactionActive === 'function' &&
    typeof host._options?.wrapWithTransaction === 'function' &&
    typeof host._options.getFallbackInstance === 'function'
  );
}

/** The data source of a host with the TypeORM adapter. */
export function dataSourceOfHost(host: TransactionHost): DataSource | undefined {
  const fallback = host._options.getFallbackInstance();
  return fallback instanceof EntityManager ? dataSourceOf(fallback) : undefined;
}

/** `@Transactional()` of @nestjs-cls/transactional 3 with its TypeORM adapter. */
export class NestjsClsLibrary implements TransactionLibrary {
  readonly name = '@nestjs-cls/transactional';

  constructor(
    private readonly host: TransactionHost,
    private readonly dataSource: DataSource,
  ) {}

  /** From now on the host says when it opens a transaction and when it leaves one. @returns undoes it */
  connect(): () => void {
    const { host, dataSource } = this;
    const { _options: options } = host;
    const wrapWithTransaction = options.wrapWithTransaction.bind(options);
    const withoutTransaction = host.withoutTransaction.bind(host);
    const replaced: Pick<AdapterOptions, 'wrapWithTransaction'> = {
      wrapWithTransaction: (...args) => asLibrary(this, dataSource, () => wrapWithTransaction(...args)),
    };
    const before: AdapterOptions = { ...options };
    Object.assign(options, replaced);
    Object.assign(host, {
      withoutTransaction: <T>(work: Work<T>) => withoutTransaction(() => runOutsideScopeOf(dataSource, work)),
    } satisfies Pick<TransactionHost, 'withoutTransaction'>);
    return () => {
      Object.assign(options, before);
      Reflect.deleteProperty(host, 'withoutTransaction');
    };
  }

  worksOn(dataSource: DataSource): boolean {
    return dataSource === this.dataSource;
  }

  isActive(): boolean {
    return this.host.isTransactionActive();
  }

  begin<T>(_dataSource: DataSource, work: Work<T>): Promise<T> {
    return this.host.withTransaction('REQUIRES_NEW', work);
  }
}
