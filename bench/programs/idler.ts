import { setTimeout as delay } from 'node:timers/promises';
import { openApplication, optionsGiven } from '../harness/application';
import { serve } from '../harness/serve';
import { countStatements } from './counted-statements';

/** An application with nothing to do. OPTIONS: the outbox options as JSON. */
const opened = openApplication({ outbox: optionsGiven() });

serve({
  async ready(): Promise<void> {
    await opened;
  },

  /** Statements sent meanwhile, BEGIN and COMMIT included. */
  async idle({ milliseconds }: { milliseconds: number }): Promise<number> {
    const before = countStatements();
    await delay(milliseconds);
    return countStatements() - before;
  },
});
