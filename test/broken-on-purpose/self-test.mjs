/** Shows that the harness itself can tell: a test that notices from one that does not, and both from one that cannot run. */
import { judge } from './judge.mjs';
import { Workshop } from './workshop.mjs';

const subject = { file: 'test/support/wait-for.ts', test: ['test/unit/support/wait-for.spec.ts'] };
const signature = 'export async function waitFor<T>(';
const cases = [
  {
    name: 'a test that notices',
    mutation: { ...subject, replace: 'if (last.value) return', with: 'if (!last.value) return' },
    noticed: true,
    says: '',
  },
  {
    name: 'a test that does not notice',
    mutation: { ...subject, replace: signature, with: `// broken in no way\n${signature}` },
    noticed: false,
    says: 'NOT NOTICED',
  },
  {
    name: 'code that does not compile',
    mutation: { ...subject, replace: signature, with: `export async function (((` },
    noticed: false,
    says: 'DOES NOT RUN',
  },
  {
    name: 'a test that is not there',
    mutation: {
      ...subject,
      replace: signature,
      with: `//\n${signature}`,
      test: [...subject.test, '-t', 'no such name'],
    },
    noticed: false,
    says: 'NO TEST RAN',
  },
  {
    name: 'a file that is not there',
    mutation: {
      ...subject,
      replace: signature,
      with: `//\n${signature}`,
      test: ['test/unit/no-such-file.spec.ts'],
    },
    noticed: false,
    says: 'NO TEST RAN',
  },
  {
    name: 'text that is not in the code',
    mutation: { ...subject, replace: 'no such text', with: '' },
    noticed: false,
    says: 'LIST IS OUT OF DATE',
  },
  {
    name: 'a test that fails for another reason',
    mutation: {
      ...subject,
      replace: 'if (last.value) return',
      with: 'if (!last.value) return',
      fails: /no such message/,
    },
    noticed: false,
    says: 'FAILED FOR ANOTHER REASON',
  },
];

const workshop = await Workshop.open();
try {
  for (const { name, mutation, noticed, says } of cases) {
    const result = await judge(workshop, mutation);
    const right = result.noticed === noticed && result.text.startsWith(says);
    if (!right) process.exitCode = 1;
    console.log(`${right ? '✓' : '✗'} ${name}: ${result.text.slice(0, 120)}`);
  }
} finally {
  await workshop.close();
}
