import { Answers } from './answers';
import { Inbox, type InboxSettings } from './inbox';
import { Pauses } from './pauses';
import { RunningDeliveries } from './running-deliveries';
import { UndecodableBodies } from './undecodable-bodies';
import { SuspectsLane } from './suspects-lane';

/** All inboxes of an application, one per registered data source, and what they share. */
export class Inboxes {
  readonly answers = new Answers();
  readonly running = new RunningDeliveries();
  readonly undecodable = new UndecodableBodies();
  private readonly pauses = new Pauses();
  private readonly lane = new SuspectsLane();
  private readonly byName = new Map<string, Inbox>();

  /** Has to be done before the handlers are looked for, which is in `onModuleInit`. */
  open(settings: InboxSettings): Inbox {
    const inbox = new Inbox(settings, {
      lane: this.lane,
      pauses: this.pauses,
      running: this.running,
      undecodable: this.undecodable,
    });
    this.byName.set(settings.name, inbox);
    return inbox;
  }

  get names(): string[] {
    return [...this.byName.keys()];
  }

  /**
   * @param name of the data source. Default: the default one, or the only one there is
   * @returns `undefined` when there is none
   */
  find(name?: string): Inbox | undefined {
    if (name !== undefined) return this.byName.get(name);
    const [only, ...more] = this.byName.values();
    return this.byName.get('default') ?? (more.length === 0 ? only : undefined);
  }

  /**
   * Stops taking deliveries on: what is held, or waits for its turn, goes back to the broker. Then waits for the handlers
   * that run. Cancel the consumers first.
   *
   * @param timeout milliseconds; after it, handlers that still run are rolled back and their messages handed back
   * @returns how many that were
   */
  drain(timeout: number): Promise<number> {
    this.pauses.stop();
    return this.running.drain(timeout);
  }
}
