/** Many requests, one wake-up: a request that nobody has taken yet covers those that follow. */
export class WakeUp {
  private requested = false;
  private resume: (() => void) | undefined;

  request(): void {
    this.requested = true;
    this.resume?.();
  }

  /** Whether there is a request that nobody has taken. */
  get isRequested(): boolean {
    return this.requested;
  }

  /** Takes the request, so that only later ones count. @returns whether there was one */
  take(): boolean {
    const { requested } = this;
    this.requested = false;
    return requested;
  }

  /** Resolves with the next request, at once when there is one. One waits at a time. */
  wait(): Promise<void> {
    if (this.requested) return Promise.resolve();
    return new Promise((resolve) => {
      this.resume = () => {
        this.resume = undefined;
        resolve();
      };
    });
  }
}
