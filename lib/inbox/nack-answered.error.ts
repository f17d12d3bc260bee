/** A handler answered with golevelup's `Nack`. Nothing that it wrote may stay, since the broker is told that it failed. */
export class NackAnsweredError extends Error {
  override readonly name = 'NackAnsweredError';

  constructor(
    consumer: string,
    readonly requeue: boolean,
  ) {
    super(`${consumer} answered with Nack(${requeue}); its transaction was rolled back.`);
  }
}
