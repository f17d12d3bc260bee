/**
 * Prints "PASSED FAILED" of a Jest run, and then the name of each test that failed, a line each:
 * `node .ci/jest-counts.mjs RESULT.json EXIT_CODE`.
 */
import { readFileSync } from 'node:fs';
import { relative } from 'node:path';

const [, , file, exitCode] = process.argv;

function counts() {
  const result = JSON.parse(readFileSync(file, 'utf8'));
  const passed = result.numPassedTests;
  // A test file that could not run at all has no failed test in it.
  const failed = result.numFailedTests + result.numRuntimeErrorTestSuites;
  // No test, or a complaint that no test stands for (a leaked handle, a coverage threshold).
  const unexplained = failed === 0 && (passed === 0 || exitCode !== '0');
  return { passed, failed: failed + (unexplained ? 1 : 0), names: namesOfFailed(result) };
}

function namesOfFailed({ testResults }) {
  return testResults.flatMap(({ name, status, assertionResults }) => {
    const failed = assertionResults.filter((test) => test.status === 'failed').map((test) => test.fullName);
    const all = failed.length === 0 && status === 'failed' ? ['could not be run'] : failed;
    return all.map((each) => `${relative(process.cwd(), name)}: ${each}`);
  });
}

try {
  const { passed, failed, names } = counts();
  console.log([`${passed} ${failed}`, ...names].join('\n'));
} catch {
  console.log(0, 1);
}
