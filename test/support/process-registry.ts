import { ChildProcess } from 'node:child_process';
import { runInThisContext } from 'node:vm';

const running = new Set<ChildProcess>();

/** Jest hands test files a copy of `process` whose 'exit' never fires; this is the one behind it. */
const realProcess = runInThisContext('process') as NodeJS.Process;

/**
 * Whatever happens to the test (a throw before `afterAll`, a failing hook, an early exit of Jest), no child outlives the
 * test process. Returns the function that forgets the child again.
 */
export function endWithThisProcess(child: ChildProcess): () => void {
  if (running.size === 0) realProcess.on('exit', killAll);
  running.add(child);
  return () => {
    running.delete(child);
    if (running.size === 0) realProcess.off('exit', killAll);
  };
}

/** Only SIGKILL reaches a process that a test has stopped. */
function killAll(): void {
  for (const child of running) child.kill('SIGKILL');
}
