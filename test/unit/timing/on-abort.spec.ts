import { getEventListeners } from 'node:events';
import { onAbort } from '../../../lib/timing/on-abort';

describe('onAbort', () => {
  it('calls everybody who still waits once, with one listener for all of them', () => {
    const controller = new AbortController();
    const log: string[] = [];
    const same = () => void log.push('same');
    onAbort(controller.signal, same);
    const forget = onAbort(controller.signal, same);
    onAbort(controller.signal, () => void log.push('other'));
    expect(getEventListeners(controller.signal, 'abort')).toHaveLength(1);
    forget();
    controller.abort();
    controller.abort();
    expect(log).toEqual(['same', 'other']);
  });

  it('calls at once where the signal has fired', () => {
    const log: string[] = [];
    onAbort(AbortSignal.abort(), () => void log.push('called'))();
    expect(log).toEqual(['called']);
  });
});
