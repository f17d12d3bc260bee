/** What was started is ended in the reverse order, also when the start stopped half-way. */
export class Cleanup {
  private readonly steps: (() => unknown)[] = [];

  add(step: () => unknown): void {
    this.steps.unshift(step);
  }

  async run(): Promise<void> {
    for (const step of this.steps.splice(0)) {
      // One thing that cannot be removed is no reason to leave the others.
      await Promise.resolve()
        .then(step)
        .catch((error: unknown) => console.error(`Not cleaned up: ${String(error)}`));
    }
  }
}
