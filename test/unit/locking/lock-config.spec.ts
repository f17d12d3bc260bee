import { resolveLockConfig, type LockConfig } from '../../../lib/locking/lock-config';
import { Leader } from '../../../lib/locking/leader';
import { SchedulerLock } from '../../../lib/locking/scheduler-lock.decorator';
import { InvalidOptionError } from '../../../lib/message/invalid-option.error';

describe('The configuration of a lock', () => {
  const good: LockConfig = { name: 'job', lockAtMostFor: '1m' };

  it.each<[string, object, string]>([
    ['lock.name', { name: '' }, "''"],
    ['lock.name', { name: ' \t ' }, "' \\t '"],
    ['lock.name', { name: undefined }, 'undefined'],
    ['lock.name', { name: 'x'.repeat(65) }, `'${'x'.repeat(65)}'`],
    ['lock.name', { name: 'a\0b' }, "'a\\x00b'"],
    ['lock.name', { name: '\ud83d' }, "'\\ud83d'"],
    ['lock.lockAtMostFor', { lockAtMostFor: 0 }, '0'],
    ['lock.lockAtMostFor', { lockAtMostFor: -1 }, '-1'],
    ['lock.lockAtMostFor', { lockAtMostFor: 0.4 }, '0.4'],
    ['lock.lockAtMostFor', { lockAtMostFor: NaN }, 'NaN'],
    ['lock.lockAtMostFor', { lockAtMostFor: 'soon' }, "'soon'"],
    ['lock.lockAtMostFor', { lockAtMostFor: '' }, "''"],
    ['lock.lockAtMostFor', { lockAtMostFor: undefined }, 'undefined'],
    ['lock.lockAtMostFor', { lockAtMostFor: 2 ** 31 }, '2147483648'],
    ['lock.lockAtMostFor', { lockAtMostFor: '25d' }, "'25d'"],
    ['lock.lockAtLeastFor', { lockAtLeastFor: -1 }, '-1'],
    ['lock.lockAtLeastFor', { lockAtLeastFor: '61s' }, "'61s'"],
    ['lock.lockAtLeastFor', { lockAtLeastFor: 'x' }, "'x'"],
    ['lock.keepAlive', { keepAlive: 'yes' }, "'yes'"],
    ['lock.lockAtleastFor', { lockAtleastFor: 1 }, '1'],
  ])('%s is refused, with its name and value: %j', (option, change, value) => {
    const resolve = () => resolveLockConfig({ ...good, ...change });
    expect(resolve).toThrow(InvalidOptionError);
    expect(resolve).toThrow(`"${option}" is ${value};`);
  });

  it('counts characters, as the column does: not bytes, and not UTF-16 units', () => {
    for (const character of ['é', '€', '😀']) {
      expect(resolveLockConfig({ ...good, name: character.repeat(64) }).name).toHaveLength(
        64 * character.length,
      );
      expect(() => resolveLockConfig({ ...good, name: character.repeat(65) })).toThrow(/it has 65/);
    }
  });

  it('fills in the defaults', () => {
    expect(resolveLockConfig(good)).toEqual({
      name: 'job',
      lockAtMostFor: 60_000,
      lockAtLeastFor: 0,
      keepAlive: false,
    });
    expect(resolveLockConfig({ ...good, lockAtMostFor: 2 ** 31 - 1 }).lockAtMostFor).toBe(2 ** 31 - 1);
  });

  it('a decorator names class and method', () => {
    class Jobs {
      job() {}
      static job() {}
    }
    const decorate = (target: object, options: object) => () =>
      SchedulerLock({ ...good, ...options })(
        target,
        'job',
        Object.getOwnPropertyDescriptor(target, 'job') as never,
      );
    expect(decorate(Jobs.prototype, { name: '' })).toThrow(/"@SchedulerLock\(Jobs\.job\)\.name" is ''/);
    expect(decorate(Jobs, {})).toThrow(InvalidOptionError);
    decorate(Jobs.prototype, {})();
    expect(decorate(Jobs.prototype, {})).toThrow(/one @SchedulerLock\(\) on a method/);
  });

  it('C14 c: a data source whose name makes the lock’s too long is refused when it is set up', () => {
    expect(() => new Leader({} as never, `outbox-dispatcher:${'x'.repeat(300)}`, 1_000, {} as never)).toThrow(
      /"dataSource" is 'outbox-dispatcher:xxx.*it has 318/,
    );
  });
});
