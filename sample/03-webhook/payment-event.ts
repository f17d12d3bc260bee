/** What the payment provider posts. It repeats an event, with the same id, until it is answered with a 2xx. */
export interface PaymentEvent {
  readonly id: string;
  readonly invoice: string;
  /** Cents. */
  readonly amount: number;
}
