import { setTimeout as delay } from 'node:timers/promises';
import { aside, check, say, step, until } from '../../shared/narrator';
import { CLAIMS_EXCHANGE } from '../shared/broker';
import { reportClaim } from './claims-api';
import { OutboxRow, Tables } from './tables';
import type { World } from './world';

/** What the steps have done so far, to be compared with what the tables say in the end. */
export interface Expected {
  claims: number;
  deliveries: number;
  duplicates: number;
  failures: number;
}

export class Story {
  readonly expected: Expected = { claims: 0, deliveries: 0, duplicates: 0, failures: 0 };
  private readonly tables: Tables;

  constructor(private readonly world: World) {
    this.tables = new Tables(world);
  }

  async claimReported(): Promise<void> {
    step('A claim is reported');
    await this.report('C-4711', 'water in the cellar');
    await this.completed('C-4711');
    this.count({ claims: 1, deliveries: 1 });
    await this.oneCase('C-4711');
  }

  async deliveredAgain(): Promise<void> {
    step('The same message is delivered again');
    const message = await this.messageAbout('C-4711');
    await this.copy(message, 1);
    await this.acked(message, 2);
    this.count({ deliveries: 1, duplicates: 1 });
    await this.oneCase('C-4711');
  }

  async tenCopiesAtOnce(): Promise<void> {
    step('Ten copies at once, while the first is still being handled');
    const { settlementDb } = this.world;
    await settlementDb.rows('BEGIN; LOCK TABLE cases IN SHARE MODE');
    aside('(The demo holds the table cases locked meanwhile, so that nobody can finish.)');
    await this.report('C-4712', 'hail on the roof');
    const message = await this.messageAbout('C-4712');
    await this.copy(message, 10);
    // RabbitMQ hands out as many at once as the prefetch allows, which is ten.
    await until(
      'ten deliveries are in progress',
      async () => (await this.tables.deliveries(message.message_id)) >= 10,
    );
    await settlementDb.rows('COMMIT');
    await this.acked(message, 11);
    await this.completed('C-4712');
    this.count({ claims: 1, deliveries: 11, duplicates: 10 });
    await this.oneCase('C-4712');
  }

  async handlerFailsOnce(): Promise<void> {
    step('The handler fails once');
    const { settlementDb } = this.world;
    await settlementDb.rows(
      "ALTER TABLE cases ADD CONSTRAINT refused_by_the_demo CHECK (claim_number <> 'C-4713')",
    );
    await this.report('C-4713', 'fire in the kitchen');
    const message = await this.messageAbout('C-4713');
    await until('the message is kept', () => this.tables.isKept(message.message_id));
    say('The database refuses the case. The message is kept in the inbox table, to be tried again:');
    await this.tables.show('C-4713');
    check('no case, and the message is not taken for handled', (await this.tables.cases('C-4713')) === 0);

    await settlementDb.rows('ALTER TABLE cases DROP CONSTRAINT refused_by_the_demo');
    say('The cause is removed. The message was delivered once, and is handled when its pause is over:');
    await this.completed('C-4713');
    this.count({ claims: 1, deliveries: 1, failures: 1 });
    await this.oneCase('C-4713');
  }

  async intakeRollsBack(): Promise<void> {
    step('Intake rolls back');
    const { intakeDb } = this.world;
    // Deferred: it fails in the COMMIT itself, when the claim and its message have long been written.
    await intakeDb.rows(`
      CREATE FUNCTION refuse_by_the_demo() RETURNS trigger LANGUAGE plpgsql
        AS $$ BEGIN RAISE EXCEPTION 'refused by the demo'; END $$;
      CREATE CONSTRAINT TRIGGER refused_by_the_demo AFTER INSERT ON claims DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION refuse_by_the_demo()`);
    await this.report('C-4714', 'storm damage', '500');
    await intakeDb.rows('DROP TRIGGER refused_by_the_demo ON claims');
    say('The database refuses the COMMIT, after the claim and its message were written:');
    await this.tables.show('C-4714');
    check('no claim and no message: nothing is sent', !(await this.tables.message('C-4714')));
    check('and no case', (await this.tables.claims('C-4714')) + (await this.tables.cases('C-4714')) === 0);
  }

  async brokerIsAway(): Promise<void> {
    step(`The broker is away${this.world.staged}`);
    await this.world.brokerGoesAway();
    await this.report('C-4715', 'burst pipe');
    // Time enough for the dispatcher to try, and to try again.
    await delay(1500);
    say('The claim is accepted all the same. Its message waits in the outbox:');
    await this.tables.show('C-4715');
    const waiting = await this.messageAbout('C-4715');
    check('not sent, and no attempt is used up', waiting.status !== 'sent' && waiting.attempts === 0);
    await this.world.brokerComesBack();
    say('The broker is back:');
    await this.completed('C-4715');
    this.count({ claims: 1, deliveries: 1 });
    await this.oneCase('C-4715');
  }

  async ackIsLost(): Promise<void> {
    step(this.lossOfAck());
    const accident = await this.world.settlementLosesItsNextAck();
    await this.report('C-4716', 'broken window');
    await accident.happened;
    const message = await this.messageAbout('C-4716');
    check('the case is committed', (await this.tables.cases('C-4716')) === 1);
    await accident.recover();
    if (!this.world.staged) say('Settlement is started again, and the broker delivers the message again:');
    await until(
      'it was delivered again',
      async () => (await this.tables.deliveries(message.message_id)) === 2,
    );
    await this.acked(message, 1);
    await this.completed('C-4716');
    this.count({ claims: 1, deliveries: 2, duplicates: 1 });
    await this.oneCase('C-4716');
  }

  async intakeDies(): Promise<void> {
    // Only where intake is a process of its own.
    if (!this.world.intakeDiesBeforeSettling) return;
    step('Intake is killed (SIGKILL) when its message is at the broker, and before it can note that');
    const accident = await this.world.intakeDiesBeforeSettling();
    await this.report('C-4717', 'stolen bicycle', '201', 'no answer');
    await accident.happened;
    const message = await this.messageAbout('C-4717');
    check('the outbox does not know that it was sent', message.status !== 'sent');
    await this.acked(message, 1);
    say(
      'Intake is started again. When the dead one’s lease is over, the message is sent again, with the same id:',
    );
    await accident.recover();
    await this.acked(message, 2);
    await this.completed('C-4717');
    this.count({ claims: 1, deliveries: 2, duplicates: 1 });
    await this.oneCase('C-4717');
  }

  /** Without the inbox: a second delivery is a second case. */
  async ackIsLostWithoutInbox(): Promise<void> {
    step(this.lossOfAck());
    const accident = await this.world.settlementLosesItsNextAck();
    await this.report('C-4711', 'water in the cellar');
    await accident.happened;
    const message = await this.messageAbout('C-4711');
    await accident.recover();
    await this.acked(message, 1);
    await until('both cases are there', async () => (await this.tables.cases('C-4711')) === 2);
    await until('all is sent', () => this.tables.nothingToSend());
    this.count({ claims: 1, deliveries: 2 });
    await this.tables.show('C-4711');
    check('one claim, two cases: it would be paid twice', (await this.tables.cases('C-4711')) === 2);
  }

  private lossOfAck(): string {
    const { staged } = this.world;
    return staged
      ? `The ack is lost after the commit, and the broker delivers again${staged}`
      : 'Settlement is killed (SIGKILL) after its commit and before its ack';
  }

  private async report(claim: string, loss: string, ...expected: string[]): Promise<void> {
    const answer = await reportClaim(this.world.intakeUrl, claim, loss);
    say(`POST /claims ${claim} "${loss}": ${answer}`);
    const fine = expected.length > 0 ? expected : ['201'];
    if (!fine.includes(answer)) check(`intake answers with ${fine.join(' or ')}`, false);
  }

  private async copy({ message_id, body }: OutboxRow, times: number): Promise<void> {
    const properties = { messageId: message_id, contentType: 'application/json', persistent: true };
    const copies = Array.from({ length: times }, () =>
      this.world.broker.publish(CLAIMS_EXCHANGE, 'claim.reported', body, properties),
    );
    await Promise.all(copies);
    say(`${times === 1 ? 'A copy' : `${times} copies`} of message ${message_id}, with the same id`);
  }

  private async messageAbout(claim: string): Promise<OutboxRow> {
    const message = await this.tables.message(claim);
    if (!message) throw new Error(`No message about ${claim} in the outbox`);
    return message;
  }

  private acked(message: OutboxRow, times: number): Promise<void> {
    return until(
      `${times} deliveries of ${message.message_id} are acked`,
      async () => (await this.tables.deliveries(message.message_id, 'acked')) === times,
    );
  }

  private async completed(claim: string): Promise<void> {
    await until(`${claim} knows its case`, () => this.tables.complete(claim));
  }

  private async oneCase(claim: string): Promise<void> {
    await this.tables.show(claim);
    const deliveries = await this.tables.deliveries((await this.messageAbout(claim)).message_id);
    const so = deliveries === 1 ? 'one delivery' : `${deliveries} deliveries`;
    check(`${so}, exactly one case`, (await this.tables.cases(claim)) === 1);
  }

  private count(more: Partial<Expected>): void {
    for (const [name, number] of Object.entries(more)) this.expected[name as keyof Expected] += number;
  }
}
