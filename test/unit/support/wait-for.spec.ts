import { waitFor } from '../../support/wait-for';

describe('waitFor', () => {
  it('gives the value that fulfilled the condition', async () => {
    let looks = 0;
    expect(
      await waitFor('the third look', () => (++looks === 3 ? { looks } : undefined), { interval: 1 }),
    ).toEqual({
      looks: 3,
    });
  });

  it('names what it waited for and shows the last value', async () => {
    await expect(
      waitFor('two rows', () => ({ rows: 1 }).rows - 1, { timeout: 20, interval: 1 }),
    ).rejects.toThrow('Waited 20 ms in vain for two rows; last value: 0');
  });

  it('takes a throwing condition for "not yet", and shows the error when it stays', async () => {
    let looks = 0;
    const coming = () => (++looks < 3 ? Promise.reject(new Error('refused')) : 'up');
    expect(await waitFor('the server', coming, { interval: 1 })).toBe('up');
    const away = () => Promise.reject(new Error('refused'));
    await expect(waitFor('the server', away, { timeout: 20, interval: 1 })).rejects.toThrow(
      /the server; .*refused/,
    );
  });

  it('gives up on a condition that never answers', async () => {
    await expect(waitFor('an answer', () => new Promise(() => undefined), { timeout: 20 })).rejects.toThrow(
      'did not answer in time',
    );
  });

  it('ends early, with the reason, when the waiting has become pointless', async () => {
    const server = new AbortController();
    const coming = waitFor('the server', () => false, { interval: 1, signal: server.signal });
    server.abort(new Error('the server has ended'));
    await expect(coming).rejects.toThrow('the server has ended');
  });
});
