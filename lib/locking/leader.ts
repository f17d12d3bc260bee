import type { LoggerService } from '@nestjs/common';
import { HeldLock } from './held-lock';
import { checkLockName } from './lock-name';
import { newLockOwner } from './lock-owner';
import type { LockStore } from './lock-store';

/** Leadership among all processes that use the same database: the holder of one lock row, for as long as it keeps it. */
export class Leader {
  private lock: HeldLock | undefined;

  /**
   * @param name of the lock row
   * @param lease milliseconds; after a crash another process leads within one lease and one poll
   * @param wanted asked before each renewal: false resigns, so that a process that does not work does not lead
   * @throws {InvalidOptionError} for a name that the lock table cannot hold (the data source's name is a part of it)
   */
  constructor(
    private readonly store: LockStore,
    private readonly name: string,
    private readonly lease: number,
    private readonly logger: LoggerService,
    private readonly wanted: () => boolean = () => true,
  ) {
    checkLockName('dataSource', name);
  }

  /** Whether this process leads at this moment. */
  get leads(): boolean {
    return this.lock?.held ?? false;
  }

  /**
   * Leads on if this process leads already, else tries to take the lock; nobody waits.
   *
   * @returns `undefined` when another process leads
   */
  async tryLead(): Promise<HeldLock | undefined> {
    if (this.lock?.held) return this.lock;
    this.lock = undefined;
    // Who follows asks at each poll. The take would lock the leader's row each time, if only for a moment.
    if (!(await this.store.isFree(this.name))) return undefined;
    const grant = await this.store.take(this.name, newLockOwner(), this.lease);
    if (!grant) return undefined;
    this.lock = new HeldLock(this.store, grant, this.lease, this.logger, this.wanted);
    return this.lock;
  }

  /** Lets another process lead. Never rejects. */
  async resign(): Promise<void> {
    const { lock } = this;
    this.lock = undefined;
    await lock?.release();
  }
}
