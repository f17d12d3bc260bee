/** How many may be under way at once, over all that share the window. */
export class InFlightWindow {
  private used = 0;
  private readonly waiting: (() => void)[] = [];

  constructor(private readonly size: number) {}

  /** Takes a place if there is one. */
  enter(): boolean {
    if (this.used >= this.size) return false;
    this.used++;
    return true;
  }

  leave(): void {
    this.used--;
    // More than one, since the first may not need the room any longer.
    while (this.used < this.size && this.waiting.length > 0) this.waiting.shift()?.();
  }

  /** Calls back once, when a place has become free; first come, first served. */
  whenRoom(callback: () => void): void {
    this.waiting.push(callback);
  }
}
