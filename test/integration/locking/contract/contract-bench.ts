import { LockService } from '../../../../lib/locking/lock.service';
import { LockStore } from '../../../../lib/locking/lock-store';
import type { LockConfig } from '../../../../lib/locking/lock-config';
import type { LockHandle } from '../../../../lib/locking/lock-handle';
import { waitFor } from '../../../support/wait-for';
import { RecordingLogger } from '../../outbox-dispatch/outbox-table';
import type { ConnectOptions, LockConnection, LockDatabase } from './lock-database';

/** What the cases of the contract work with. */
export class ContractBench {
  readonly logger = new RecordingLogger();
  private readonly connections: LockConnection[] = [];
  private main!: LockConnection;
  private service!: LockService;

  private constructor(readonly database: LockDatabase) {}

  static async open(database: LockDatabase): Promise<ContractBench> {
    const bench = new ContractBench(database);
    [bench.service, bench.main] = await bench.connect();
    return bench;
  }

  get locks(): LockService {
    return this.service;
  }

  get connection(): LockConnection {
    return this.main;
  }

  /** The service of another process, as far as the database can tell. */
  async connect(options?: ConnectOptions, statementTimeout?: number): Promise<[LockService, LockConnection]> {
    const connection = await this.database.connect(options);
    this.connections.push(connection);
    const store = new LockStore({ ...connection, statementTimeout });
    return [new LockService({ store, logger: this.logger }), connection];
  }

  /** Takes a lock that must be free. */
  async take(
    name: string,
    lockAtMostFor = 60_000,
    more: Partial<LockConfig> = {},
    locks = this.service,
  ): Promise<LockHandle> {
    const handle = await locks.tryLock({ name, lockAtMostFor, ...more });
    if (!handle) throw new Error(`The lock ${name} is not free`);
    return handle;
  }

  async isHeld(name: string): Promise<boolean> {
    return (await this.database.state(name))?.held ?? false;
  }

  /** Until the database counts it as run out. */
  async expired(name: string): Promise<void> {
    await waitFor(`${name} to run out`, async () => !(await this.isHeld(name)), { interval: 5 });
  }

  async close(): Promise<void> {
    this.database.resume();
    await Promise.all(this.connections.map((each) => each.close().catch(() => undefined)));
    await this.database.close();
  }
}
