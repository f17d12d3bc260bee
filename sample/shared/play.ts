import { Cleanup } from './cleanup';
import { failed, say, title } from './narrator';

export interface Play {
  title: string;
  /** What happens, with checks; whatever it starts it also adds to the cleanup. */
  story: (cleanup: Cleanup) => Promise<void>;
  /** What the programs have logged, for a demo that fails. */
  log?: () => string;
  /** Default: "All as it should be." */
  moral?: string;
  /** Default: a new one. */
  cleanup?: Cleanup;
}

/** Plays a demo, cleans up after it, also on Ctrl-C, and sets the exit code: 1 when a check or anything else has failed. */
export async function play({
  title: heading,
  story,
  log,
  moral,
  cleanup = new Cleanup(),
}: Play): Promise<void> {
  const started = Date.now();
  process.once('SIGINT', () => void cleanup.run().then(() => process.exit(130)));
  let broken = false;
  try {
    title(heading);
    await story(cleanup);
  } catch (error) {
    broken = true;
    console.error(`\n${error instanceof Error ? error.message : String(error)}`);
  }
  const wrong = broken || failed() > 0;
  if (wrong && log) console.error(`\nWhat the programs logged:\n${log()}`);
  await cleanup.run();
  const seconds = Math.round((Date.now() - started) / 1000);
  console.log('');
  say(`${wrong ? 'Something is wrong.' : (moral ?? 'All as it should be.')} ${seconds} s.`);
  process.exitCode = wrong ? 1 : 0;
}
