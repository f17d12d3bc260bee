/** Milliseconds. */
const PAUSE = 200;

/** Calls at once, and again after a pause when it was asked for meanwhile: many requests are two calls. */
export function throttled(call: () => void, pause: number = PAUSE): () => void {
  let resting: NodeJS.Timeout | undefined;
  let again = false;
  const run = () => {
    again = false;
    resting = setTimeout(() => {
      resting = undefined;
      if (again) run();
    }, pause).unref();
    call();
  };
  return () => {
    if (resting) again = true;
    else run();
  };
}
