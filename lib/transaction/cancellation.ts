/**
 * An AbortController that is made when somebody asks for the signal: few handlers do, and making one for each message costs
 * as much time as a tenth of a transaction.
 */
export class Cancellation {
  private controller: AbortController | undefined;
  private cause: { readonly reason: Error } | undefined;

  get aborted(): boolean {
    return this.cause !== undefined;
  }

  get reason(): Error | undefined {
    return this.cause?.reason;
  }

  get signal(): AbortSignal {
    this.controller ??= new AbortController();
    if (this.cause) this.controller.abort(this.cause.reason);
    return this.controller.signal;
  }

  /** The first reason counts. */
  abort(reason: Error): void {
    this.cause ??= { reason };
    this.controller?.abort(reason);
  }
}
