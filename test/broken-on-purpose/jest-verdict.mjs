import { spawn } from 'node:child_process';
import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';

/**
 * Runs Jest in that folder and says what came of it:
 * `failed` (tests ran, and some failed), `passed`, `none` (no test ran), `broken` (a test file could not be run at all, for
 * example because it does not compile), `hung`.
 */
export async function runJest(folder, args, { timeout = 240_000 } = {}) {
  const outputFile = join(folder, 'jest-result.json');
  await rm(outputFile, { force: true });
  const { output, hung } = await run(folder, [...args, '--json', '--outputFile', outputFile], timeout);
  if (hung) return { verdict: 'hung', detail: `no end within ${timeout / 1000} s` };
  const result = await readFile(outputFile, 'utf8').then(JSON.parse, () => undefined);
  if (!result) return { verdict: 'none', detail: lastLines(output) };

  const tests = result.testResults.flatMap((file) => file.assertionResults);
  const ran = tests.filter((test) => test.status === 'passed' || test.status === 'failed');
  const failed = tests.filter((test) => test.status === 'failed');
  if (result.numRuntimeErrorTestSuites > 0) {
    const file = result.testResults.find((each) => each.assertionResults.length === 0);
    return { verdict: 'broken', detail: firstLine(file?.message) };
  }
  if (ran.length === 0) return { verdict: 'none', detail: 'no test has that name' };
  if (failed.length === 0) return { verdict: 'passed', detail: `${ran.length} tests` };
  const messages = failed.flatMap((test) => test.failureMessages);
  return { verdict: 'failed', detail: `${failed[0].title}: ${firstLine(messages[0])}`, messages };
}

function run(cwd, args, timeout) {
  return new Promise((resolve) => {
    const jest = join('node_modules', 'jest', 'bin', 'jest.js');
    // A process group of its own, so that the processes which tests start end with it. What is broken may leave handles open.
    const child = spawn(process.execPath, [jest, '--ci', '--forceExit', ...args], { cwd, detached: true });
    let output = '';
    let hung = false;
    child.stdout.on('data', (chunk) => (output += chunk));
    child.stderr.on('data', (chunk) => (output += chunk));
    const endGroup = () => {
      try {
        process.kill(-child.pid, 'SIGKILL');
      } catch {
        // It has ended already.
      }
    };
    const timer = setTimeout(() => {
      hung = true;
      endGroup();
    }, timeout);
    child.on('close', () => {
      clearTimeout(timer);
      endGroup();
      resolve({ output, hung });
    });
  });
}

// eslint-disable-next-line no-control-regex -- Jest colours its messages
const plain = (text = '') => text.replace(/\u001b\[[0-9;]*m/g, '');
const firstLine = (text) =>
  plain(text)
    .split('\n')
    .map((line) => line.trim())
    .find(Boolean) ?? '';
const lastLines = (text) => plain(text).trim().split('\n').slice(-3).join(' | ');
