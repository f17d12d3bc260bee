import { Injectable } from '@nestjs/common';
import type { QueryRunner } from 'typeorm';
import { type AmqpTable, decodeTable } from '../message/amqp-codec';
import type { DeadLetterRow, DeadLetterStatements } from '../persistence/dead-letter-statements';
import { JoinedWork, type JoinedWorkParts } from '../transaction/joined-work';
import type {
  DeadLetter,
  DeadLetterDetails,
  DeadLetterFilter,
  DeadLetterId,
  DeadLetterPage,
  DeadLetterQuery,
} from './dead-letter';
import { type Box, checkId, checkQuery, checkSelection, type Selection } from './dead-letter-checks';

export interface DeadLetterServiceDependencies extends JoinedWorkParts {
  readonly statements: Readonly<Record<Box, DeadLetterStatements>>;
  /** Called after the commit of a replay, to wake whoever works on the table. */
  readonly notify: Readonly<Record<Box, () => void>>;
}

/** Milliseconds. Reading may have to go through all that is dead. */
const LIMITS = { statementTimeout: 60_000, lockTimeout: 30_000 };

/** Rows changed in one statement: few enough to hold up nobody. */
const BATCH = 500;

/** Before every sequence. */
const START = '0';

/**
 * The messages that were given up, of the outbox (could not be sent) and of the inbox (could not be handled): look at them,
 * replay them, discard them. They stay until somebody does.
 *
 * Everything joins the active transaction where there is one. Outside, a filter that many messages match is worked off in
 * batches with a transaction each, so an error leaves those done that were done before.
 */
@Injectable()
export class DeadLetterService {
  private readonly work: JoinedWork;

  constructor(private readonly use: DeadLetterServiceDependencies) {
    this.work = new JoinedWork(use, LIMITS);
  }

  /**
   * One page of those that match, the ones stored last first. Pages are stable: whatever dies or is replayed meanwhile, going
   * through all of them shows no message twice, and none is left out that was dead all the time.
   *
   * @throws {InvalidArgumentError} before any SQL
   */
  async list(query: DeadLetterQuery): Promise<DeadLetterPage> {
    const { box, criteria, page } = checkQuery(query);
    // One more than asked for tells whether there is a next page.
    const found = await this.work.run({}, (runner) =>
      this.use.statements[box].list(runner, criteria, { ...page, limit: page.limit + 1 }),
    );
    const letters = found.slice(0, page.limit);
    const last = found.length > page.limit ? letters.at(-1) : undefined;
    return { letters: letters.map((row) => toLetter(box, row)), ...(last && { next: last.seq }) };
  }

  /**
   * One of them, with its body, headers and properties.
   *
   * @returns `undefined` when there is no such message, or it is not dead
   * @throws {InvalidArgumentError} before any SQL
   */
  async get(id: DeadLetterId): Promise<DeadLetterDetails | undefined> {
    const { box, criteria } = checkId('get', { ...id });
    const found = await this.work.run({}, (runner) => this.use.statements[box].find(runner, criteria));
    if (!found) return undefined;
    const { body, headers, properties } = found;
    return { ...toLetter(box, found), body, headers: readable(headers), properties: readable(properties) };
  }

  /**
   * Gives messages another life: same id, same content, due at once, attempts counted from none. The error stays readable
   * until the next attempt has one. In an ordering key it takes its old place by the order of publishing, before what still
   * waits there. What has expired expires no more. A message of the inbox without its body cannot be replayed.
   *
   * Each message is replayed once, however many ask for it at the same time.
   *
   * @returns how many were; 0 when there is none (any more), e.g. because somebody else was faster
   * @throws {InvalidArgumentError} before any SQL
   */
  async replay(which: DeadLetterId | DeadLetterFilter): Promise<number> {
    const selection = checkSelection('replay', which);
    return this.change('replay', selection, this.use.notify[selection.box]);
  }

  /**
   * Gives messages up for good. The outbox forgets them. The inbox keeps the id for its retention, without the content, so
   * that a late redelivery is not handled after all.
   *
   * @returns how many were; 0 when there is none (any more)
   * @throws {InvalidArgumentError} before any SQL
   */
  async discard(which: DeadLetterId | DeadLetterFilter): Promise<number> {
    return this.change('discard', checkSelection('discard', which));
  }

  /** By sequence, each row looked at once: what dies again meanwhile is not replayed again by the same call. */
  private async change(
    what: 'replay' | 'discard',
    { box, criteria }: Selection,
    notify?: () => void,
  ): Promise<number> {
    const afterCommit = (seqs: readonly string[]) => {
      if (seqs.length > 0) notify?.();
    };
    let total = 0;
    for (let after = START; ;) {
      const work = (runner: QueryRunner) =>
        this.use.statements[box][what](runner, criteria, { after, limit: BATCH });
      const changed = await this.work.run({}, work, afterCommit);
      total += changed.length;
      if (changed.length < BATCH) return total;
      after = changed.reduce((last, seq) => (BigInt(seq) > BigInt(last) ? seq : last));
    }
  }
}

function toLetter(box: Box, row: DeadLetterRow): DeadLetter {
  const { messageId, owner, exchange, routingKey, orderingKey, attempts, error, storedAt, diedAt } = row;
  const common = { messageId, exchange, routingKey, orderingKey, attempts, error, storedAt, diedAt };
  return box === 'outbox' ? { box, transport: owner, ...common } : { box, consumer: owner, ...common };
}

function readable(text: string | null): AmqpTable | string | null {
  try {
    return decodeTable(text) ?? null;
  } catch {
    return text;
  }
}
