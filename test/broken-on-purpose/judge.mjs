import { runJest } from './jest-verdict.mjs';
import { MutationError } from './workshop.mjs';

/** Breaks one thing and says whether its test noticed. `mayDiffer`: another run may say something else. */
export async function judge(workshop, mutation) {
  try {
    const result = await workshop.withMutation(mutation, () => runJest(workshop.folder, mutation.test));
    return interpret(mutation, result);
  } catch (error) {
    if (error instanceof MutationError)
      return { noticed: false, text: `LIST IS OUT OF DATE: ${error.message}` };
    throw error;
  }
}

function interpret({ fails }, { verdict, detail, messages }) {
  switch (verdict) {
    case 'failed':
      if (fails && !messages.some((message) => fails.test(message))) {
        return { noticed: false, mayDiffer: true, text: `FAILED FOR ANOTHER REASON: ${detail}` };
      }
      return { noticed: true, text: detail };
    case 'passed':
      return { noticed: false, mayDiffer: true, text: `NOT NOTICED, ${detail} passed` };
    case 'none':
      return { noticed: false, text: `NO TEST RAN: ${detail}` };
    case 'broken':
      return { noticed: false, text: `DOES NOT RUN: ${detail}` };
    default:
      return { noticed: false, text: `HANGS: ${detail}` };
  }
}
