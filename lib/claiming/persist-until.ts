const FIRST_PAUSE = 100;
const LONGEST_PAUSE = 400;

export interface Persistence {
  /** Asked before each new attempt. */
  readonly goOn: () => boolean;
  /** Called for each failure. */
  readonly onFailure: (error: unknown) => void;
}

/** Tries again, with growing pauses, until it works or `goOn()` says no. @returns whether it worked; never rejects */
export async function persistUntil(
  work: () => Promise<unknown>,
  { goOn, onFailure }: Persistence,
): Promise<boolean> {
  for (let pause = FIRST_PAUSE; ; pause = Math.min(pause * 2, LONGEST_PAUSE)) {
    try {
      await work();
      return true;
    } catch (error) {
      onFailure(error);
    }
    if (!goOn()) return false;
    await new Promise((resolve) => setTimeout(resolve, pause));
    if (!goOn()) return false;
  }
}
