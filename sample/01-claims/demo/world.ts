import type { Sql } from '../../shared/sql';
import type { BrokerClient } from './broker-client';

/** Something that was prepared and happens with the next claim. */
export interface Accident {
  happened: Promise<void>;
  /** Brings the service back, where it is gone. */
  recover(): Promise<void>;
}

/** Where the story plays: on real servers, or on what Node alone can offer. */
export interface World {
  readonly description: string[];
  /** Ends the headings of what this world can only play-act. */
  readonly staged: string;
  readonly intakeUrl: string;
  readonly intakeDb: Sql;
  readonly settlementDb: Sql;
  readonly broker: BrokerClient;
  brokerGoesAway(): Promise<void>;
  brokerComesBack(): Promise<void>;
  /** Settlement commits, but its ack never reaches the broker. */
  settlementLosesItsNextAck(): Promise<Accident>;
  /** The broker confirms, but intake never gets to note that. Only where intake is a process that can be killed. */
  intakeDiesBeforeSettling?(): Promise<Accident>;
  /** What the services have logged, for a demo that fails. */
  log(): string;
}
