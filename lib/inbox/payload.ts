/**
 * Makes a payload what it was before a handler changed it. A handler that is run again gets the same object, since
 * golevelup has handed it over already; without this the second run would see what the first has made of it.
 *
 * Plain objects, arrays and buffers are restored, which is what JSON and raw bodies give. Instances of an application's own
 * classes, from an own `deserializer`, are left as they are.
 *
 * @param fresh the same payload, decoded once more
 */
export function restorePayload(payload: unknown, fresh: unknown): void {
  if (Array.isArray(payload) && Array.isArray(fresh)) {
    payload.length = 0;
    for (const item of fresh as unknown[]) payload.push(item);
  } else if (Buffer.isBuffer(payload) && Buffer.isBuffer(fresh)) {
    fresh.copy(payload);
  } else if (isPlainObject(payload) && isPlainObject(fresh)) {
    for (const key of Reflect.ownKeys(payload)) Reflect.deleteProperty(payload, key);
    Object.defineProperties(payload, Object.getOwnPropertyDescriptors(fresh));
  }
}

function isPlainObject(value: unknown): value is Record<string, unknown> {
  if (typeof value !== 'object' || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}
