/** Prints "PASSED FAILED" of a Jest run: `node .ci/jest-counts.mjs RESULT.json EXIT_CODE`. */
import { readFileSync } from 'node:fs';

const [, , file, exitCode] = process.argv;

function counts() {
  const result = JSON.parse(readFileSync(file, 'utf8'));
  const passed = result.numPassedTests;
  // A test file that could not run at all has no failed test in it.
  const failed = result.numFailedTests + result.numRuntimeErrorTestSuites;
  // No test, or a complaint that no test stands for (a leaked handle, a coverage threshold).
  const unexplained = failed === 0 && (passed === 0 || exitCode !== '0');
  return { passed, failed: failed + (unexplained ? 1 : 0) };
}

try {
  const { passed, failed } = counts();
  console.log(passed, failed);
} catch {
  console.log(0, 1);
}
