import type { ChildProcess } from 'node:child_process';

export interface PostgresInstallation {
  bin: string;
  version: string;
}

/** `preferred`: which one to take when both the npm package and an installed PostgreSQL are there. */
export function findPostgres(preferred: 'npm' | 'system'): PostgresInstallation | undefined;

export function createCluster(options: { bin: string; dataFolder: string }): void;

export function spawnPostgres(options: {
  bin: string;
  dataFolder: string;
  port: number;
  logFile: string;
  /** Settings as in postgresql.conf. */
  config?: Record<string, string | number>;
  detached?: boolean;
}): ChildProcess;
