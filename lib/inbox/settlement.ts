/** What the broker is told about a delivery. */
export type Settlement =
  /** The value is the handler's result; `undefined` for a duplicate. */
  | {
      readonly kind: 'ack';
      readonly value: unknown;
      /** Handled inside a transaction of the application, whose commit can still fail. */
      readonly provisional?: true;
    }
  | { readonly kind: 'nack'; readonly requeue: boolean }
  /** Left to what is around: a transaction of the application has to be rolled back first. */
  | { readonly kind: 'throw'; readonly error: unknown; readonly deliveries: number };

export const ack = (value?: unknown): Settlement => ({ kind: 'ack', value });
export const reject: Settlement = { kind: 'nack', requeue: false };
export const requeue: Settlement = { kind: 'nack', requeue: true };
