import { execFile } from 'node:child_process';

describe('The list of what is broken on purpose', () => {
  it('fits the code: each text is found once, and each test file is there', async () => {
    const output = await new Promise<string>((resolve) => {
      execFile(process.execPath, ['test/broken-on-purpose/check-list.mjs'], (error, stdout, stderr) =>
        resolve(error ? `${stdout}${stderr}` || error.message : stdout),
      );
    });
    expect(output).toBe('');
  });
});
