/** While nothing happens, one poll in this many looks. */
const RELAXED = 5;
/** Leases without any event until polling relaxes. What a process that has died had claimed is free by then. */
const QUIET_LEASES = 2;

export interface IdlePollsDependencies {
  /** Milliseconds. */
  readonly pollInterval: number;
  /** Milliseconds. */
  readonly lease: number;
  /** Whether other processes are certainly heard when they write. */
  readonly hears: () => boolean;
}

/**
 * Which polls may be left out.
 *
 * 1. None while anything happens, for two leases after that, or while this process does not hear the others.
 * 2. Then four of five, but none once the next planned date has come: what is planned leaves as punctually as ever.
 */
export class IdlePolls {
  private lastEvent = performance.now();
  private nextLook = 0;

  constructor(private readonly use: IdlePollsDependencies) {}

  /** Something happened, or was told. */
  awake(): void {
    this.lastEvent = performance.now();
    this.nextLook = 0;
  }

  /** Whether polls may be left out at all. */
  get quiet(): boolean {
    return this.use.hears() && performance.now() - this.lastEvent >= QUIET_LEASES * this.use.lease;
  }

  /**
   * A look has found nothing.
   *
   * @param nextDate milliseconds until the next planned date
   */
  rest(nextDate = Infinity): void {
    // Half an interval less, so that a timer that fires a little early does not cost a whole one.
    const relaxed = (RELAXED - 0.5) * this.use.pollInterval;
    this.nextLook = performance.now() + Math.min(relaxed, nextDate);
  }

  /** Whether the poll that is due now may be left out. */
  get mayRest(): boolean {
    return this.quiet && performance.now() < this.nextLook;
  }
}
