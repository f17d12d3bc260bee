import { setTimeout as delay } from 'node:timers/promises';
import type { Cleanup } from '../../shared/cleanup';
import { check, say, step, until } from '../../shared/narrator';
import { play } from '../../shared/play';
import { SesEndpoint } from './ses-endpoint';
import { addressOf, Stage } from './stage';

export async function tell(): Promise<void> {
  let stage: Stage | undefined;
  await play({
    title: 'A confirmation mail for each user who exists, and for nobody else',
    log: () => stage?.log() ?? '',
    story: async (cleanup) => {
      stage = await Stage.prepare(cleanup);
      await stage.startApp();
      const story = new Story(stage);
      await story.registered();
      await story.registeredByEvent();
      await story.rolledBack();
      await story.serverIsAway();
      await story.refusedForNow();
      await story.refusedForEver();
      await story.slowServer();
      await story.killedAfterSending();
      await story.overSes(cleanup);
      await story.total();
    },
  });
}

class Story {
  private expected = 0;

  constructor(private readonly stage: Stage) {}

  async registered(): Promise<void> {
    step('A user registers; the service writes the mail');
    await this.stage.register('Ann');
    await this.arrivedOnce('Ann');
  }

  async registeredByEvent(): Promise<void> {
    step('A user registers; a listener that knows nothing of transactions writes the mail');
    await this.stage.register('Bob', 'event');
    await this.arrivedOnce('Bob');
  }

  async rolledBack(): Promise<void> {
    step('The registration is rolled back');
    const { sql } = this.stage;
    // Deferred: it fails in the COMMIT itself, when the user and the mail have long been written.
    await sql.rows(`
      CREATE FUNCTION refuse_by_the_demo() RETURNS trigger LANGUAGE plpgsql
        AS $$ BEGIN RAISE EXCEPTION 'refused by the demo'; END $$;
      CREATE CONSTRAINT TRIGGER refused_by_the_demo AFTER INSERT ON users DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION refuse_by_the_demo()`);
    const answers = [await this.stage.register('Cid'), await this.stage.register('Dan', 'event')];
    await sql.rows('DROP TRIGGER refused_by_the_demo ON users');
    check(
      'both fail',
      answers.every((status) => status === 500),
    );
    for (const name of ['Cid', 'Dan']) {
      await this.stage.show(name);
      check(`${name} does not exist, and no mail is waiting`, await this.nothingOf(name));
    }
  }

  async serverIsAway(): Promise<void> {
    step('The mail server is away');
    const { mailServer } = this.stage;
    await mailServer.goAway();
    await this.stage.register('Eve');
    await this.stage.register('Fay', 'event');
    // Time enough to try, and to try again.
    await delay(2000);
    say('Both are registered all the same. Their mails wait in the outbox:');
    await this.stage.show('Eve');
    const rows = [await this.stage.row('Eve'), await this.stage.row('Fay')];
    check(
      'not sent, and no attempt is used up',
      rows.every((row) => row?.status === 'ready' && row.attempts === 0),
    );
    await mailServer.comeBack();
    say('The mail server is back:');
    await this.arrivedOnce('Eve');
    await this.arrivedOnce('Fay');
  }

  async refusedForNow(): Promise<void> {
    step('The mail server refuses for now (450, greylisting)');
    const { mailServer } = this.stage;
    const before = mailServer.refused;
    mailServer.answerToRecipients = '450 4.2.0 Greylisted, try again later';
    await this.stage.register('Gil');
    await until('it was refused', () => mailServer.refused > before);
    mailServer.answerToRecipients = undefined;
    await this.arrivedOnce('Gil');
  }

  async refusedForEver(): Promise<void> {
    step('The mail server refuses for ever (550)');
    const { mailServer } = this.stage;
    const before = mailServer.refused;
    mailServer.answerToRecipients = '550 5.1.1 No such user here';
    await this.stage.register('Hal');
    await until('the mail is dead', async () => (await this.stage.row('Hal'))?.status === 'dead');
    mailServer.answerToRecipients = undefined;
    await this.stage.show('Hal');
    const row = await this.stage.row('Hal');
    say(`Why: ${row?.error?.split('\n')[0]}`);
    check('it was tried once, and the reason is kept', !!row?.error?.includes('No such user here'));
    check('once', mailServer.refused === before + 1);
  }

  async slowServer(): Promise<void> {
    step('The mail server takes its time');
    const { mailServer, sql } = this.stage;
    let answer = () => {};
    let asked = false;
    mailServer.beforeAnswer = () => {
      asked = true;
      return new Promise<void>((resolve) => (answer = resolve));
    };
    await this.stage.register('Ina');
    await until('the server has the mail', () => asked);
    const transactions = await sql.number(
      `SELECT count(*) FROM pg_stat_activity
       WHERE datname = current_database() AND pid <> pg_backend_pid() AND state LIKE 'idle in transaction%'`,
    );
    check('no transaction is open meanwhile', transactions === 0);
    mailServer.beforeAnswer = () => undefined;
    answer();
    await this.arrivedOnce('Ina');
  }

  async killedAfterSending(): Promise<void> {
    step('The application is killed (SIGKILL) when the mail is out, before it can note that');
    const { mailServer } = this.stage;
    let asked = false;
    mailServer.beforeAnswer = () => {
      asked = true;
      return new Promise<void>(() => undefined);
    };
    await this.stage.register('Joe');
    await until('the server has the mail', () => asked);
    await this.stage.killApp();
    mailServer.beforeAnswer = () => undefined;
    say('It is started again. When the dead one’s lease is over, the mail is sent again:');
    await this.stage.startApp();
    await this.sent('Joe');
    await this.stage.show('Joe');
    const mails = mailServer.to(addressOf('Joe'));
    this.expected += 2;
    check(
      'it arrived twice, with the same Message-ID: at least once, and to be told apart',
      mails.length === 2 && mails[0]?.messageId === mails[1]?.messageId,
    );
  }

  async overSes(cleanup: Cleanup): Promise<void> {
    step('The same over SES: one setting, no code');
    const ses = await SesEndpoint.start(cleanup);
    await this.stage.stopApp();
    await this.stage.startApp({
      MAIL_BY: 'ses',
      SES_ENDPOINT: ses.url,
      AWS_REGION: 'eu-central-1',
      AWS_ACCESS_KEY_ID: 'demo',
      AWS_SECRET_ACCESS_KEY: 'demo',
    });
    await this.stage.register('Kim');
    await this.sent('Kim');
    const [mail] = ses.mails;
    const row = await this.stage.row('Kim');
    check('it is there, once', ses.mails.length === 1 && !!mail?.to.includes(addressOf('Kim')));
    say(`X-Outbox-Message-Id: ${mail?.outboxId}`);
    check(
      'SES makes a Message-ID of its own; the outbox’s id is in X-Outbox-Message-Id',
      mail?.outboxId === row?.id,
    );
  }

  async total(): Promise<void> {
    step('In the end');
    const { sql, mailServer } = this.stage;
    const [statuses] = await sql.rows<{ sent: number; dead: number; open: number }>(
      `SELECT count(*) FILTER (WHERE status = 'sent')::int AS sent, count(*) FILTER (WHERE status = 'dead')::int AS dead,
         count(*) FILTER (WHERE status NOT IN ('sent', 'dead'))::int AS open FROM outbox_message`,
    );
    const users = await sql.number('SELECT count(*) FROM users');
    say(
      `${users} users; mails: ${statuses?.sent} sent, ${statuses?.dead} dead with a reason, ${statuses?.open} waiting`,
    );
    check('a mail for each user', statuses?.sent === users - 1 && statuses.dead === 1 && statuses.open === 0);
    check('and nothing more has arrived', mailServer.mails.length === this.expected);
  }

  private async arrivedOnce(name: string): Promise<void> {
    await this.sent(name);
    await this.stage.show(name);
    const mails = this.stage.mailServer.to(addressOf(name));
    const row = await this.stage.row(name);
    this.expected++;
    check(
      'one user, one mail, with the id of its outbox message',
      mails.length === 1 && mails[0]?.outboxId === row?.id && (await this.stage.users(name)) === 1,
    );
  }

  private sent(name: string): Promise<void> {
    return until(`the mail to ${name} is sent`, async () => (await this.stage.row(name))?.status === 'sent');
  }

  private async nothingOf(name: string): Promise<boolean> {
    const mails = this.stage.mailServer.to(addressOf(name));
    return (
      (await this.stage.users(name)) === 0 && (await this.stage.row(name)) === undefined && mails.length === 0
    );
  }
}
