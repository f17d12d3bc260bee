import type { LoggerService } from '@nestjs/common';
import { HandlerUnavailableError } from '../../message/handler-unavailable.error';
import { NonRetryableError } from '../../message/non-retryable.error';
import { HandlerTimeoutError } from '../../transaction/handler-timeout.error';
import { ShuttingDownError } from '../../transaction/shutting-down.error';
import { decodeLocalMessage } from './local-message';
import { runInOutboxContext } from './outbox-handler-context';
import type { HandlerRuns, RunOutcome, RunTerms } from './run-outcome';

/** What a handler is granted to return after its signal was aborted by a shutdown. Milliseconds. */
const GRACE = 1_000;

/** How long after its timeout a handler that goes on is complained about. Milliseconds. */
const PATIENCE = 5_000;

/**
 * A handler without a transaction (`transactional: false`): claim → work → settle. The claim is renewed for as long as it
 * runs, however long; what it does may happen again when the process dies before the settling.
 *
 * After its timeout the signal is aborted, and the message is settled when the handler returns: as done where it did return
 * in the end, for then its work is done, otherwise as failed. Settling it before would let it begin again while the first
 * run is still at work. A shutdown gives it back without waiting any longer, because the process ends.
 */
export class DetachedRuns implements HandlerRuns {
  constructor(private readonly logger: Pick<LoggerService, 'warn' | 'debug'>) {}

  async run({ handler, message, abort }: RunTerms): Promise<RunOutcome> {
    const controller = new AbortController();
    let decoded: ReturnType<typeof decodeLocalMessage>;
    try {
      decoded = decodeLocalMessage(message, controller.signal);
    } catch (error) {
      return { kind: 'failed', error, permanent: true };
    }
    const { payload, context } = decoded;
    const { timeout } = handler.options;
    const timers: NodeJS.Timeout[] = [];
    if (timeout !== undefined) {
      const reason = new HandlerTimeoutError(handler.name, timeout, 'aborted');
      timers.push(setTimeout(() => controller.abort(reason), timeout));
      const complaint =
        `The handler "${handler.name}" still runs ${PATIENCE} ms after its timeout of ${timeout} ms; message ` +
        `${message.messageId} waits for it. Have it pass the signal of its context on.`;
      timers.push(setTimeout(() => void this.logger.warn(complaint), timeout + PATIENCE));
    }
    const { cutOff, forget } = givenUp(abort, controller);
    try {
      const running = runInOutboxContext(context, () => handler.handle(payload, context)).then(
        (): RunOutcome => ({ kind: 'done' }),
        (error: unknown): RunOutcome => failure(error, controller.signal),
      );
      return await Promise.race([running, cutOff]);
    } finally {
      for (const timer of timers) clearTimeout(timer);
      forget();
    }
  }
}

function failure(error: unknown, signal: AbortSignal): RunOutcome {
  if (error instanceof HandlerUnavailableError) return { kind: 'unavailable', error };
  if (!signal.aborted || error instanceof NonRetryableError) return { kind: 'failed', error };
  const reason: unknown = signal.reason;
  return reason instanceof ShuttingDownError
    ? { kind: 'interrupted', reason: 'shutdown', error: reason }
    : { kind: 'failed', error: reason };
}

/** Aborts the handler with the shutdown, and waits a little for what it makes of that. */
function givenUp(
  abort: AbortSignal,
  controller: AbortController,
): { cutOff: Promise<RunOutcome>; forget: () => void } {
  let grace: NodeJS.Timeout | undefined;
  let onAbort: () => void = () => undefined;
  const cutOff = new Promise<RunOutcome>((resolve) => {
    onAbort = () => {
      const error = new ShuttingDownError();
      controller.abort(error);
      grace = setTimeout(() => resolve({ kind: 'interrupted', reason: 'shutdown', error }), GRACE);
    };
    abort.addEventListener('abort', onAbort);
    if (abort.aborted) onAbort();
  });
  const forget = () => {
    clearTimeout(grace);
    abort.removeEventListener('abort', onAbort);
  };
  return { cutOff, forget };
}
