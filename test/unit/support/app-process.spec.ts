import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { AppProcess, AppProcessOptions, startAppProcess } from '../../support/app-process';
import { waitFor } from '../../support/wait-for';

const fixture = 'test/support/fixtures/nest-app.ts';
const register = join(__dirname, '../../support/register-typescript.cjs');
const carelessTest = join(__dirname, '../../support/fixtures/careless-test.ts');

describe('startAppProcess', () => {
  const started: AppProcess[] = [];
  const start = (options?: AppProcessOptions) => {
    const app = startAppProcess(fixture, options);
    started.push(app);
    return app;
  };
  afterEach(async () => {
    await Promise.all(started.splice(0).map((app) => app.close()));
  });

  it('runs a TypeScript Nest application with injection by type, and calls it', async () => {
    const app = start({ args: ['--one'] });
    expect(await app.waitFor('ready')).toEqual({
      pid: app.pid,
      args: ['--one'],
      bytes: Buffer.from([0, 255]),
    });
    expect(await app.request('welcome', 'Ada')).toBe('hello Ada at the desk');
    await expect(app.request('fail')).rejects.toMatchObject({ name: 'TypeError', message: 'asked to fail' });
    await expect(app.request('unknown')).rejects.toThrow("no onRequest('unknown')");
  });

  it('is killed at an armed point, with nothing after it', async () => {
    const app = start();
    await app.waitFor('ready');
    await app.request('two steps');
    expect(app.events('step')).toEqual([{ number: 1 }, { number: 2 }]);

    await app.request('arm', { point: 'between the steps' });
    await expect(app.request('two steps')).rejects.toThrow('the process ended before that');
    expect(await app.exited).toEqual({ code: null, signal: 'SIGKILL' });
    expect(app.events('point')).toEqual([{ point: 'between the steps', signal: 'SIGKILL' }]);
    expect(app.events('step')).toHaveLength(3);
  });

  it('is armed from the start', async () => {
    const app = start({ armed: ['between the steps'] });
    await app.waitFor('ready');
    await expect(app.request('two steps')).rejects.toThrow('ended with SIGKILL');
  });

  it('answers nothing while stopped, and everything after it woke', async () => {
    const app = start();
    await app.waitFor('ready');
    app.stop();
    const answer = app.request('welcome', 'Bea');
    await expect(app.request('welcome', 'Cleo', { timeout: 200 })).rejects.toThrow('nothing within 200 ms');
    app.cont();
    expect(await answer).toBe('hello Bea at the desk');
  });

  it('can be killed while stopped', async () => {
    const app = start();
    await app.waitFor('ready');
    app.stop();
    expect(await app.kill()).toEqual({ code: null, signal: 'SIGKILL' });
  });

  it('shows the output and the exit code to whoever waits in vain', async () => {
    const app = start();
    await app.waitFor('ready');
    const never = app.waitFor('never');
    app.send({ kind: 'request', id: 0, type: 'exit', payload: 3 });
    await expect(never).rejects.toThrow(
      /'never' of .*nest-app\.ts \(pid \d+, ended with 3\)[^]*leaving with 3/,
    );
    expect(await app.exited).toEqual({ code: 3, signal: null });
  });

  it('shows why a fixture did not start', async () => {
    const app = startAppProcess('test/support/fixtures/does-not-exist.ts');
    await expect(app.waitFor('ready')).rejects.toThrow('Cannot find module');
  });

  it('leaves no process behind', async () => {
    const app = start();
    await app.waitFor('ready');
    await app.close();
    expect(() => process.kill(app.pid, 0)).toThrow('ESRCH');
  });

  it.each([
    ['leaves while the app runs', ['run-app', 'leave']],
    ['leaves while the app is stopped', ['stop-app', 'leave']],
    ['is killed', ['run-app', 'stay']],
  ])('leaves no process behind when the test process %s', async (_, args) => {
    const careless = spawn(process.execPath, ['-r', register, carelessTest, ...args], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const ended = once(careless, 'exit');
    const pid = Number(String(((await once(careless.stdout, 'data')) as [Buffer])[0]));
    if (args[1] === 'stay') careless.kill('SIGKILL');
    await ended;
    await waitFor('the app to be gone', () => isGone(pid));
  });
});

function isGone(pid: number): boolean {
  try {
    process.kill(pid, 0);
  } catch {
    return true;
  }
  // An orphan that init has not yet come round to is a zombie: dead all the same.
  const status = `/proc/${pid}/status`;
  return existsSync(status) && /^State:\s+Z/m.test(readFileSync(status, 'utf8'));
}
