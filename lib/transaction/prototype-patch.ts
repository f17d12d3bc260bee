/** Replaces a member, given the descriptor that was there before. */
type Replace = (before: PropertyDescriptor | undefined) => PropertyDescriptor;

/** Which of our functions replaced what: whatever is found here on a prototype may be taken off again. */
const replaced = new WeakMap<object, PropertyDescriptor | undefined>();

/**
 * A member of a prototype that can be replaced and put back exactly. When somebody else has replaced it after us, theirs
 * stays (it leads to ours, which passes everything on); ours is then wrapped again by the next `apply`.
 */
export class PrototypePatch {
  constructor(
    private readonly target: object,
    private readonly key: string,
    private readonly replace: Replace,
  ) {}

  apply(): void {
    const before = Object.getOwnPropertyDescriptor(this.target, this.key);
    if (ours(before)) return;
    const descriptor = this.replace(before);
    replaced.set(functionOf(descriptor), before);
    Object.defineProperty(this.target, this.key, descriptor);
  }

  revert(): void {
    const now = Object.getOwnPropertyDescriptor(this.target, this.key);
    if (!now || !ours(now)) return;
    const before = replaced.get(functionOf(now));
    if (before) Object.defineProperty(this.target, this.key, before);
    else Reflect.deleteProperty(this.target, this.key);
  }
}

function ours(descriptor: PropertyDescriptor | undefined): boolean {
  return descriptor !== undefined && replaced.has(functionOf(descriptor));
}

function functionOf(descriptor: PropertyDescriptor): object {
  const { get, value } = descriptor as { get?: object; value?: object };
  return get ?? value ?? descriptor;
}
