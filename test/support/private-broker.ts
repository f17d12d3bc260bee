import { findRabbit } from '../services/rabbitmq-node';
import { startBrokerContainer } from './private-broker-container';
import { startBrokerNode } from './private-broker-node';

export interface PrivateBrokerOptions {
  /** Lines of rabbitmq.conf, for example `consumer_timeout = 5000`. */
  config?: string;
}

export interface PrivateBroker {
  /** The same after every restart. */
  readonly url: string;
  readonly port: number;
  /** The node stays, its connections are closed and its port refuses: as in an upgrade. */
  stopApp(): Promise<void>;
  /** Resolves when clients can log in again. */
  startApp(): Promise<void>;
  /** Ends the node in good order, starts it again and waits until clients can log in. */
  restart(): Promise<void>;
  /** SIGKILL: a crash. `start()` brings it back. */
  kill(): Promise<void>;
  /** After `kill()`. Does nothing while it runs. */
  start(): Promise<void>;
  /** rabbitmqctl on this node; resolves with its stdout. */
  ctl(...args: string[]): Promise<string>;
  close(): Promise<void>;
}

/**
 * A real RabbitMQ that a test may stop, crash and restart, beside the shared one: from the installed rabbitmq-server, else
 * in a container. Takes about 5 s to start, so one per test file.
 */
export async function startPrivateBroker(options: PrivateBrokerOptions = {}): Promise<PrivateBroker> {
  const installed = findRabbit();
  return installed ? startBrokerNode(installed.sbin, options) : startBrokerContainer(options);
}
