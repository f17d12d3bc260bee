import { AsyncResource } from 'node:async_hooks';
import type { SchedulerRegistry } from '@nestjs/schedule';
import { runOutsideScopes } from '../transaction/transaction-context';

/** What is used of @nestjs/schedule's registry. */
export type IntervalRegistry = Pick<
  SchedulerRegistry,
  'doesExist' | 'addInterval' | 'getInterval' | 'deleteInterval'
>;

/**
 * An interval that users see in @nestjs/schedule's `SchedulerRegistry`, and can stop there by its name.
 *
 * Timers inherit the async context of whoever starts them. Ours run in that of the constructor, outside any transaction:
 * a wake-up from a user's transaction must not pull the module's own work into it.
 */
export class NamedInterval {
  private readonly context = runOutsideScopes(() => new AsyncResource('InboxOutboxJob'));
  private handle: NodeJS.Timeout | undefined;

  /**
   * @param name in the registry
   * @param period milliseconds
   * @param tick must not throw
   */
  constructor(
    private readonly registry: IntervalRegistry,
    readonly name: string,
    private readonly period: number,
    private readonly tick: () => void,
  ) {}

  /** False before the start, after the stop, and when a user has deleted it from the registry. */
  get active(): boolean {
    return (
      this.handle !== undefined &&
      this.registry.doesExist('interval', this.name) &&
      this.registry.getInterval(this.name) === this.handle
    );
  }

  /** @throws Error when the registry has another interval of this name */
  start(): void {
    if (this.active) return;
    const handle = this.outside(() => setInterval(this.tick, this.period));
    try {
      this.registry.addInterval(this.name, handle);
      this.handle = handle;
    } catch (error) {
      clearInterval(handle);
      throw error;
    }
  }

  stop(): void {
    if (this.active) this.registry.deleteInterval(this.name);
    clearInterval(this.handle);
    this.handle = undefined;
  }

  /** Runs something in the context that the ticks run in. */
  outside<T>(fn: () => T): T {
    return this.context.runInAsyncScope(fn);
  }
}
