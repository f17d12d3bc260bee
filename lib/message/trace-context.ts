import { Logger } from '@nestjs/common';

/** What is used of `@opentelemetry/api`, an optional peer. */
interface OpenTelemetry {
  readonly ROOT_CONTEXT: unknown;
  readonly context: { active(): unknown; with<T>(context: unknown, work: () => T): T };
  readonly propagation: {
    inject(context: unknown, carrier: Record<string, unknown>): void;
    extract(context: unknown, carrier: Record<string, unknown>): unknown;
  };
}

const logger = new Logger('Outbox');

/** Under this key every copy of the API, version 1, finds the SDK that the application has registered. */
const REGISTERED = Symbol.for('opentelemetry.js.api.1');

let loaded: OpenTelemetry | undefined;

/**
 * The API, once the application has registered an SDK with it; without one there is nothing to ask. It is loaded only
 * then, so it is never imported where it is not installed or not used.
 */
function openTelemetry(): OpenTelemetry | undefined {
  if (!(REGISTERED in globalThis)) return undefined;
  try {
    // eslint-disable-next-line @typescript-eslint/no-require-imports -- an optional peer, which may be absent
    loaded ??= require('@opentelemetry/api') as OpenTelemetry;
  } catch {
    // Registered by a copy that cannot be reached from here.
  }
  return loaded;
}

/** What the application's propagators (W3C's by default) say about the active span, as headers. Empty without one. */
export function activeTrace(): Record<string, string> {
  return guarded({}, (api) => {
    const carrier: Record<string, unknown> = {};
    api.propagation.inject(api.context.active(), carrier);
    return Object.fromEntries(
      Object.entries(carrier).filter((entry): entry is [string, string] => typeof entry[1] === 'string'),
    );
  });
}

/** Runs `work` in the trace that the headers tell of, so that what watches it continues that trace. */
export function runInTrace<T>(headers: Readonly<Record<string, unknown>> | undefined, work: () => T): T {
  const api = openTelemetry();
  // Not the active one: whoever woke the dispatcher has a trace of its own.
  const context = guarded(undefined, ({ propagation, ROOT_CONTEXT }) =>
    propagation.extract(ROOT_CONTEXT, headers ?? {}),
  );
  return api && context !== undefined ? api.context.with(context, work) : work();
}

/** A fault in the telemetry must not keep a message from being written or sent. */
function guarded<T>(fallback: T, ask: (api: OpenTelemetry) => T): T {
  const api = openTelemetry();
  if (!api) return fallback;
  try {
    return ask(api);
  } catch (error) {
    logger.warn(`OpenTelemetry failed, a message goes without its trace: ${String(error)}`);
    return fallback;
  }
}
