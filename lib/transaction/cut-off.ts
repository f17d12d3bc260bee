import type { LoggerService } from '@nestjs/common';
import type { DataSource, QueryRunner } from 'typeorm';
import type { Dialect } from '../persistence/dialect';
import { onAbort } from '../timing/on-abort';
import { within } from '../timing/within';
import { Cancellation } from './cancellation';
import { HandlerTimeoutError } from './handler-timeout.error';
import { runOutside } from './own-work';
import { ShuttingDownError } from './shutting-down.error';
import { thrownText } from '../message/thrown-text';

/** Milliseconds to wait for a connection to cancel a statement with, when the pool is used up. */
const CANCEL_PATIENCE = 1_000;

/** When to stop waiting for a piece of work on a connection. */
export interface Cut {
  readonly runner: QueryRunner;
  /** Is aborted with the reason. Left out where nobody asks. */
  readonly cancellation?: Cancellation;
  /** Fires when a shutdown cannot wait any longer. */
  readonly abort: AbortSignal;
  /** Milliseconds. Default: no limit. */
  readonly timeout?: number;
  /** Whose work it is, for the messages. */
  readonly handler?: string;
}

/** Ends the waiting for work inside a transaction, so that it can be rolled back whatever the work is doing. */
export class CutOff {
  constructor(
    private readonly dataSource: DataSource,
    private readonly dialect: Pick<Dialect, 'cancelStatement'>,
    private readonly logger: Pick<LoggerService, 'debug'>,
  ) {}

  /**
   * Waits for the work until its time is over. What it does after that has nothing to write to any more.
   *
   * @throws {HandlerTimeoutError}
   * @throws {ShuttingDownError}
   */
  until<T>(running: Promise<T>, cut: Cut): Promise<T> {
    const { runner, cancellation = new Cancellation(), abort, timeout, handler = '' } = cut;
    return new Promise<T>((resolve, reject) => {
      let cancelling: Promise<void> | undefined;
      let timer: NodeJS.Timeout | undefined;
      let isOver = false;
      const end = (reason: Error) => {
        if (cancellation.aborted) return;
        cancellation.abort(reason);
        // A ROLLBACK waits for the statement before it, however long that takes.
        cancelling = this.cancelStatement(runner);
        void cancelling.then(() => {
          if (isOver) return;
          stopWaiting();
          reject(reason);
          this.watchStraggler(running, handler);
        });
      };
      const forgetAbort = onAbort(abort, () => end(new ShuttingDownError()));
      if (timeout !== undefined)
        timer = setTimeout(() => end(new HandlerTimeoutError(handler, timeout)), timeout);
      const stopWaiting = () => {
        clearTimeout(timer);
        forgetAbort();
      };
      // What is being cancelled has to be over: the connection must not become somebody else's, whose statement would be
      // cancelled instead.
      const settle = (settled: () => void) => {
        isOver = true;
        stopWaiting();
        if (cancelling) void cancelling.then(settled);
        else settled();
      };
      running.then(
        (value) => settle(() => resolve(value)),
        // What it made of having been cut off is no failure of its own.
        (error: unknown) => settle(() => reject(cancellation.reason ?? (error as Error))),
      );
    });
  }

  /** Never rejects. When it returns, nothing is cancelled any more. */
  private async cancelStatement(runner: QueryRunner): Promise<void> {
    const request = { wanted: true, sent: false };
    try {
      const cancelled = this.requestCancel(runner, () => {
        request.sent = request.wanted;
        return request.wanted;
      });
      if (await within(CANCEL_PATIENCE, cancelled)) return;
      request.wanted = false;
      cancelled.catch(() => undefined);
      if (request.sent) await cancelled;
    } catch (error) {
      this.logger.debug?.(
        `The statement of a handler that is cut off could not be cancelled: ${String(error)}`,
      );
    }
  }

  /** @param isWanted asked when there is a connection to do it with, right before it is done */
  private requestCancel(victim: QueryRunner, isWanted: () => boolean): Promise<void> {
    return runOutside(this.dataSource, async (other) => {
      await other.connect();
      if (isWanted() && !victim.isReleased) await this.dialect.cancelStatement(victim, other);
    });
  }

  private watchStraggler(running: Promise<unknown>, handler: string): void {
    running.catch((error: unknown) => {
      this.logger.debug?.(`The handler ${handler} ended after it had been cut off: ${thrownText(error)}`);
    });
  }
}
