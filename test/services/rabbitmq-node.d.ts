import type { ChildProcess } from 'node:child_process';

/** The folder with RabbitMQ's own scripts, or `undefined` when RabbitMQ is not installed. */
export function findRabbit(): { sbin: string } | undefined;

export function nodeEnvironment(options: {
  folder: string;
  /** Before the `@localhost` of the node's name. */
  name: string;
  port: number;
  distPort: number;
  /** Default: the machine's epmd. */
  epmdPort?: number;
  /** Lines of rabbitmq.conf. */
  config?: string;
}): NodeJS.ProcessEnv;

export function spawnNode(options: { sbin: string; folder: string; env: NodeJS.ProcessEnv }): ChildProcess;
