import 'reflect-metadata';
import { aside, failed, say } from '../../shared/narrator';
import { play } from '../../shared/play';
import { embeddedWorld } from './embedded.world';
import type { Stage } from './prepare';
import { serverWorld } from './server.world';
import { Story } from './story';
import { total } from './totals';
import type { World } from './world';

export async function tell(stage: Stage): Promise<void> {
  const { cleanup, withoutInbox } = stage;
  let world: World | undefined;
  await play({
    title: withoutInbox ? 'The same claims without the inbox' : 'Claims: one case for each, whatever happens',
    moral: withoutInbox ? 'That is what the inbox prevents.' : undefined,
    cleanup,
    log: () => world?.log() ?? '',
    story: async () => {
      say(
        'Intake takes a claim by HTTP, stores it and publishes "claim.reported". Settlement opens a case for it.',
      );
      world = await (stage.servers ? serverWorld(stage, stage.servers) : embeddedWorld(stage));
      world.description.forEach((line) => say(line));
      if (withoutInbox) say('@Idempotent() is left off: the handlers run in a plain transaction instead.');
      const story = new Story(world);
      await (withoutInbox ? withoutIt(story) : withIt(story));
      await total(world, story.expected, withoutInbox ? 2 : 1);
    },
  });
  if (!stage.servers && !withoutInbox && failed() === 0) {
    aside(
      'With DATABASE_URL and AMQP_URL set, the services are processes of their own, and both get killed.',
    );
  }
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
