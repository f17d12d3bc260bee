import type { RegisteredHandler } from './registered-handler';
import type { Settlement } from './settlement';

/** What the inbox has said about a delivery. */
export interface Answer {
  readonly handler: RegisteredHandler;
  readonly settlement: Settlement;
}

/**
 * Remembers the answer to each delivery for as long as golevelup has the message in its hands. When golevelup reports an
 * error it tells whether the delivery had failed or only the ack, which comes to the same for golevelup.
 */
export class Answers {
  private readonly byMessage = new WeakMap<object, Answer>();

  remember(message: object, answer: Answer): void {
    this.byMessage.set(message, answer);
  }

  to(message: object): Answer | undefined {
    return this.byMessage.get(message);
  }
}
