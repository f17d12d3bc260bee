import { ContextSlot } from '../context/context-slot';
import type { InboundMessage } from './inbound-message';
import { restorePayload } from './payload';

/** golevelup's arrays, and those that the handler gets in their place. */
type Swaps = ReadonlyMap<unknown, unknown>;

const slot = new ContextSlot<Swaps>();

/**
 * The arguments of a batch handler: three arrays in step, of payloads, raw messages and headers.
 *
 * The handler gets arrays of its own with some of the messages. golevelup's array of raw messages stays as it is, since golevelup
 * acks what is in it; its other two arrays are private copies, and are filled anew for pipes and interceptors inside, which
 * have no other way to see fewer messages.
 */
export class BatchArguments {
  private readonly payloads: unknown[];
  readonly messages: readonly InboundMessage[];
  private readonly headers: unknown[];
  private readonly original: { readonly payloads: unknown[]; readonly headers: unknown[] };
  private readonly seen = new Set<number>();

  /**
   * @param args of the execution context
   * @param decode for payloads that a first run has changed
   */
  constructor(
    private readonly args: unknown[],
    private readonly decode: (message: InboundMessage) => unknown,
  ) {
    const [payloads, messages, headers] = args as [unknown[], InboundMessage[], unknown[]];
    this.payloads = payloads;
    this.messages = messages;
    this.headers = headers;
    this.original = { payloads: [...payloads], headers: [...headers] };
  }

  /** Runs what is inside of the interceptor with these messages only. May be called more than once, one after the other. */
  run<T>(indices: readonly number[], call: () => Promise<T>): Promise<T> {
    for (const index of indices) this.refresh(index);
    const pick = <E>(all: readonly E[]) => indices.map((index) => all[index] as E);
    const selected = {
      payloads: pick(this.original.payloads),
      messages: pick(this.messages),
      headers: pick(this.original.headers),
    };
    this.payloads.splice(0, Infinity, ...selected.payloads);
    this.headers.splice(0, Infinity, ...selected.headers);
    this.args[1] = selected.messages;
    const swaps = new Map<unknown, unknown>([
      [this.payloads, selected.payloads],
      [this.messages, selected.messages],
      [this.headers, selected.headers],
    ]);
    return slot.run(swaps, call);
  }

  private refresh(index: number): void {
    const payload = this.original.payloads[index];
    if (this.seen.has(index) && typeof payload === 'object') {
      restorePayload(payload, this.decode(this.messages[index] as InboundMessage));
    }
    this.seen.add(index);
  }
}

type Method = (...args: unknown[]) => unknown;

/** Marks a method of ours. */
const WRAPS = Symbol('nestjs-inbox-outbox:batch');

/**
 * Puts a method in the place of a batch handler that hands it the arrays of {@link BatchArguments}, and is like it in all
 * else: name, number of parameters, metadata. Outside of a batch it only passes its arguments on.
 *
 * golevelup takes the method from the prototype, and binds it; nobody else can change the arguments.
 *
 * @returns puts the original back
 */
export function wrapBatchMethod(instance: object, propertyKey: string): () => void {
  const owner = ownerOf(instance, propertyKey);
  const descriptor = owner && Object.getOwnPropertyDescriptor(owner, propertyKey);
  const method = descriptor?.value as (Method & { [WRAPS]?: true }) | undefined;
  // Inherited by two providers: it is wrapped once.
  if (!owner || !descriptor || !method || method[WRAPS]) return () => undefined;
  const wrapped: Method = function (this: unknown, ...args) {
    const swaps = slot.get();
    return method.apply(this, swaps ? args.map((each) => (swaps.has(each) ? swaps.get(each) : each)) : args);
  };
  for (const key of Reflect.getOwnMetadataKeys(method) as unknown[]) {
    Reflect.defineMetadata(key, Reflect.getOwnMetadata(key, method), wrapped);
  }
  for (const key of ['name', 'length']) {
    Object.defineProperty(wrapped, key, Object.getOwnPropertyDescriptor(method, key) as PropertyDescriptor);
  }
  Object.defineProperty(owner, propertyKey, {
    ...descriptor,
    value: Object.assign(wrapped, { [WRAPS]: true }),
  });
  return () => Object.defineProperty(owner, propertyKey, descriptor);
}

/** The prototype that has the method. */
function ownerOf(instance: object, propertyKey: string): object | undefined {
  let owner = Object.getPrototypeOf(instance) as object | null;
  while (owner && !Object.hasOwn(owner, propertyKey)) owner = Object.getPrototypeOf(owner) as object | null;
  return owner ?? undefined;
}
