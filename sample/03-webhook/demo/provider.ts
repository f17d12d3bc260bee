import { setTimeout as delay } from 'node:timers/promises';
import type { PaymentEvent } from '../payment-event';

export interface Answer {
  /** 0: the connection was lost before there was one. */
  readonly status: number;
  readonly duplicate?: boolean;
}

/** The payment provider: posts events, and repeats what was not answered with a 2xx. */
export class Provider {
  constructor(private readonly url: string) {}

  async post(event: Partial<PaymentEvent>): Promise<Answer> {
    try {
      const response = await fetch(this.url, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(event),
      });
      return { status: response.status, ...((await response.json()) as { duplicate?: boolean }) };
    } catch {
      return { status: 0 };
    }
  }

  async repeat(event: PaymentEvent): Promise<Answer> {
    for (;;) {
      const answer = await this.post(event);
      if (answer.status >= 200 && answer.status < 300) return answer;
      await delay(100);
    }
  }
}
