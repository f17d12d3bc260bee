import { PrototypePatch } from '../../../lib/transaction/prototype-patch';

describe('PrototypePatch', () => {
  const make = () => ({ greet: () => 'hello' });
  const loud = (target: object) =>
    new PrototypePatch(target, 'greet', (before) => {
      const original = before?.value as () => string;
      return { ...before, value: () => `${original()}!` };
    });

  it('replaces once, however often it is applied', () => {
    const target = make();
    const patch = loud(target);
    patch.apply();
    patch.apply();
    expect(target.greet()).toBe('hello!');
  });

  it('puts back the very descriptor', () => {
    const target = make();
    const before = Object.getOwnPropertyDescriptor(target, 'greet');
    const patch = loud(target);
    patch.apply();
    patch.revert();
    patch.revert();
    expect(Object.getOwnPropertyDescriptor(target, 'greet')).toStrictEqual(before);
  });

  it('removes a member that was not there before', () => {
    const target = {};
    const patch = new PrototypePatch(target, 'extra', () => ({ configurable: true, get: () => 1 }));
    patch.apply();
    expect((target as { extra?: number }).extra).toBe(1);
    patch.revert();
    expect(Reflect.ownKeys(target)).toEqual([]);
  });

  it("leaves somebody else's on top, and wraps it when applied again", () => {
    const target = make();
    const patch = loud(target);
    patch.apply();
    const ours = target.greet;
    const theirs = () => `${ours()}?`;
    target.greet = theirs;
    patch.revert();
    expect(target.greet).toBe(theirs);
    patch.apply();
    expect(target.greet()).toBe('hello!?!');
    patch.revert();
    expect(target.greet).toBe(theirs);
  });

  it('recognises its own when somebody else has put it back', () => {
    const target = make();
    const original = target.greet;
    const patch = loud(target);
    patch.apply();
    const ours = target.greet;
    target.greet = () => 'theirs';
    patch.revert();
    target.greet = ours;
    patch.apply();
    expect(target.greet()).toBe('hello!');
    patch.revert();
    expect(target.greet).toBe(original);
  });
});
