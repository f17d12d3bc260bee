import { ChildMessage, EventMessage, ResponseMessage } from './child-protocol';
import { WaitOptions } from './wait-for';

interface Waiter {
  /** True when the event was taken. */
  offer(event: EventMessage): boolean;
  fail(reason: string): void;
}

/** What an app process has said, and who waits for what of it. Every wait ends: with the message, the time, or the process. */
export class ChildMessages {
  private readonly waiters = new Set<Waiter>();
  private readonly responses = new Map<number, (response: ResponseMessage) => void>();
  private readonly all: EventMessage[] = [];
  private untaken: EventMessage[] = [];
  private nextId = 1;
  private ended = false;

  constructor(private readonly explain: (what: string, reason: string) => Error) {}

  receive(message: ChildMessage | undefined): void {
    if (message?.kind === 'response') this.responses.get(message.id)?.(message);
    if (message?.kind !== 'event') return;
    this.all.push(message);
    for (const waiter of this.waiters) if (waiter.offer(message)) return;
    this.untaken.push(message);
  }

  end(): void {
    this.ended = true;
    for (const waiter of [...this.waiters]) waiter.fail('the process ended before that');
  }

  events<P>(type: string): P[] {
    return this.all.filter((event) => event.type === type).map((event) => event.payload as P);
  }

  untakenTypes(): string[] {
    return this.untaken.map((event) => event.type);
  }

  /** Each event is given to one waiter only; what nobody waits for is kept for the next who asks. */
  event<P>(type: string, predicate: (payload: P) => boolean = () => true, options?: WaitOptions): Promise<P> {
    const wanted = (event: EventMessage) => event.type === type && predicate(event.payload as P);
    const earlier = this.untaken.find(wanted);
    if (earlier) {
      this.untaken = this.untaken.filter((event) => event !== earlier);
      return Promise.resolve(earlier.payload as P);
    }
    return this.pending<P>(`'${type}'`, options, (settle) => (event) => {
      if (!wanted(event)) return false;
      settle(event.payload as P);
      return true;
    });
  }

  response(type: string, options?: WaitOptions): { id: number; response: Promise<ResponseMessage> } {
    const id = this.nextId++;
    const response = this.pending<ResponseMessage>(`the answer to '${type}'`, options, (settle) => {
      this.responses.set(id, settle);
      return () => false;
    });
    return { id, response: response.finally(() => this.responses.delete(id)) };
  }

  private pending<T>(
    what: string,
    { timeout = 20_000 }: WaitOptions = {},
    start: (settle: (value: T) => void) => Waiter['offer'],
  ): Promise<T> {
    return new Promise<T>((resolved, rejected) => {
      const done = () => {
        clearTimeout(timer);
        this.waiters.delete(waiter);
      };
      const fail = (reason: string) => {
        done();
        rejected(this.explain(what, reason));
      };
      const timer = setTimeout(() => fail(`nothing within ${timeout} ms`), timeout);
      const offer = start((value) => {
        done();
        resolved(value);
      });
      const waiter: Waiter = { offer, fail };
      this.waiters.add(waiter);
      if (this.ended) fail('the process has ended');
    });
  }
}
