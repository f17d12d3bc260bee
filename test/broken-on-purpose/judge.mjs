import { runJest } from './jest-verdict.mjs';
import { MutationError } from './workshop.mjs';

/** Breaks one thing and says whether its test noticed. `isCertain`: another run would say the same. */
export async function judge(workshop, mutation) {
  try {
    const result = await workshop.withMutation(mutation, () => runJest(workshop.folder, mutation.test));
    return interpret(mutation, result);
  } catch (error) {
    if (error instanceof MutationError)
      return { noticed: false, isCertain: true, text: `LIST IS OUT OF DATE: ${error.message}` };
    throw error;
  }
}

function interpret({ fails }, { verdict, detail, messages }) {
  switch (verdict) {
    case 'failed':
      if (fails && !messages.some((message) => fails.test(message))) {
        return { noticed: false, text: `FAILED FOR ANOTHER REASON: ${detail}` };
      }
      return { noticed: true, text: detail };
    case 'passed':
      return { noticed: false, text: `NOT NOTICED, ${detail} passed` };
    case 'none':
      return { noticed: false, isCertain: true, text: `NO TEST RAN: ${detail}` };
    case 'broken':
      return { noticed: false, isCertain: true, text: `DOES NOT RUN: ${detail}` };
    default:
      return { noticed: false, isCertain: true, text: `HANGS: ${detail}` };
  }
}
