import type { LoggerService } from '@nestjs/common';

/** A logger that cannot throw: the application's own may, and a loop of ours must survive that. */
export function guardedLogger(logger: LoggerService): LoggerService {
  const guard =
    (level: 'log' | 'warn' | 'error' | 'debug') =>
    (message: unknown, ...rest: unknown[]) => {
      try {
        logger[level]?.(message, ...rest);
      } catch {
        // Nowhere is left to tell it.
      }
    };
  return { log: guard('log'), warn: guard('warn'), error: guard('error'), debug: guard('debug') };
}
