import 'reflect-metadata';
import { embeddedWorld } from './embedded.world';
import { aside, failed, say, title } from './narrator';
import type { Stage } from './prepare';
import { serverWorld } from './server.world';
import { Story } from './story';
import { total } from './totals';
import type { World } from './world';

export async function tell(stage: Stage): Promise<void> {
  const { cleanup, withoutInbox } = stage;
  const started = Date.now();
  process.once('SIGINT', () => void cleanup.run().then(() => process.exit(130)));
  let world: World | undefined;
  let broken = false;
  try {
    title(withoutInbox ? 'The same claims without the inbox' : 'Claims: one case for each, whatever happens');
    say(
      'Intake takes a claim by HTTP, stores it and publishes "claim.reported". Settlement opens a case for it.',
    );
    world = await (stage.servers ? serverWorld(stage, stage.servers) : embeddedWorld(stage));
    world.description.forEach((line) => say(line));
    if (withoutInbox) say('@Idempotent() is left off: the handlers run in a plain transaction instead.');
    const story = new Story(world);
    await (withoutInbox ? withoutIt(story) : withIt(story));
    await total(world, story.expected, withoutInbox ? 2 : 1);
  } catch (error) {
    broken = true;
    console.error(`\n${error instanceof Error ? error.message : String(error)}`);
    if (world) console.error(`\nWhat the services logged:\n${world.log()}`);
  }
  await cleanup.run();
  const wrong = broken || failed() > 0;
  const seconds = Math.round((Date.now() - started) / 1000);
  console.log('');
  if (wrong) say(`Something is wrong. ${seconds} s.`);
  else if (withoutInbox) say(`That is what the inbox prevents. ${seconds} s.`);
  else say(`All as it should be. ${seconds} s.`);
  if (!stage.servers && !withoutInbox) {
    aside(
      'With DATABASE_URL and AMQP_URL set, the services are processes of their own, and both get killed.',
    );
  }
  process.exitCode = wrong ? 1 : 0;
}

async function withIt(story: Story): Promise<void> {
  await story.claimReported();
  await story.deliveredAgain();
  await story.tenCopiesAtOnce();
  await story.handlerFailsOnce();
  await story.intakeRollsBack();
  await story.brokerIsAway();
  await story.ackIsLost();
  await story.intakeDies();
}

async function withoutIt(story: Story): Promise<void> {
  await story.ackIsLostWithoutInbox();
}
