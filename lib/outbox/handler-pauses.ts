/** Local handlers of which this process begins no message at the moment, because what they need is away. */
export class HandlerPauses {
  private readonly timers = new Map<string, NodeJS.Timeout>();

  /** @param onEnd called when a pause is over. Must not throw */
  constructor(private readonly onEnd: () => void) {}

  /** A pause that is on already is replaced: messages that were under way together fail one after the other. */
  begin(handler: string, milliseconds: number): void {
    clearTimeout(this.timers.get(handler));
    const end = () => {
      this.timers.delete(handler);
      this.onEnd();
    };
    this.timers.set(handler, setTimeout(end, milliseconds).unref());
  }

  has(handler: string): boolean {
    return this.timers.has(handler);
  }

  /** Without a call of `onEnd`. */
  endAll(): void {
    for (const timer of this.timers.values()) clearTimeout(timer);
    this.timers.clear();
  }
}
