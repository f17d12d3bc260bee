import { setTimeout as delay } from 'node:timers/promises';

/** Asks until the answer is there; gives the last refusal when the time is over or `ended()` says that nothing will come. */
export async function eventually(ask, { timeout = 60_000, ended = () => undefined } = {}) {
  const deadline = Date.now() + timeout;
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      const reason = ended();
      if (reason) throw new Error(reason, { cause: error });
      if (Date.now() > deadline) throw error;
    }
    await delay(200);
  }
}
