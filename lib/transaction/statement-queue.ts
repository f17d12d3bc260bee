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

  /** @param isWatched whether subscribers hear of the statement; nobody else can be inside of it */
  run<T>(statement: () => Promise<T>, isWatched = true): Promise<T> {
    if (!isWatched) return this.outer.run(statement);
    const around = turns.get();
    const isInside = around && around.queue === this && !around.over;
    const queue = isInside ? (around.inner ??= new SerialQueue()) : this.outer;
    const turn: Turn = { queue: this, inner: undefined, over: false };
    return queue.run(
      () => turns.run(turn, statement),
      () => void (turn.over = true),
    );
  }
}
