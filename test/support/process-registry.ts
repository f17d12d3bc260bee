import { ChildProcess, spawn } from 'node:child_process';
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

/**
 * The same for servers, which do not notice that the test is gone: a shell of a few hundred kilobytes waits for the end of
 * its input, which comes even when the test process is killed, and then kills the server.
 */
export function endServerWithThisProcess(child: ChildProcess): () => void {
  const release = endWithThisProcess(child);
  if (child.pid === undefined || process.platform === 'win32') return release;
  const guard = spawn('sh', ['-c', 'read -r line; kill -9 "$1"', 'guard', String(child.pid)], {
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true, // a Ctrl-C, or a kill of the whole process group, is just when it is needed
  });
  guard.on('error', () => undefined);
  guard.stdin.on('error', () => undefined);
  return () => {
    guard.kill('SIGKILL');
    release();
  };
}
