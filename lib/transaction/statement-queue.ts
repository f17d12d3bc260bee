import { ContextSlot } from '../context/context-slot';
import { SerialQueue } from './serial-queue';

/** A statement whose turn it is, with a queue of its own for what is sent from inside it. */
interface Turn {
  readonly queue: StatementQueue;
  inner: SerialQueue | undefined;
  over: boolean;
}

const turns = new ContextSlot<Turn>();

/**
 * Statements of one connection, one at a time: pg 9 will refuse a second query on a busy client.
 *
 * A TypeORM subscriber to `beforeQuery` or `afterQuery` runs inside the statement it is told about. Its own statements
 * must not wait for that statement's end, so they queue up within its turn.
 */
export class StatementQueue {
  private readonly outer = new SerialQueue();
  /** The statement whose turn it is was begun without one. */
  private isUnwatched = false;

  /**
   * @param isWatched whether somebody may send statements from inside of this one; where nobody can, it does without a turn, which
   *   is a step into the async context
   */
  run<T>(statement: () => Promise<T>, isWatched = true): Promise<T> {
    const around = turns.get();
    const isInside = around && around.queue === this && !around.over;
    if (!isInside && !isWatched) return this.runUnwatched(statement);
    // Somebody has begun to watch meanwhile, and may be inside of the statement that nobody watched when it began.
    const queue = isInside
      ? (around.inner ??= new SerialQueue())
      : this.isUnwatched
        ? new SerialQueue()
        : this.outer;
    const turn: Turn = { queue: this, inner: undefined, over: false };
    return queue.run(
      () => turns.run(turn, statement),
      () => void (turn.over = true),
    );
  }

  private runUnwatched<T>(statement: () => Promise<T>): Promise<T> {
    return this.outer.run(
      () => {
        this.isUnwatched = true;
        return statement();
      },
      () => void (this.isUnwatched = false),
    );
  }
}
