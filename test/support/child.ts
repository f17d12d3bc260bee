import { ChildMessage, RequestMessage } from './child-protocol';

/**
 * The fixture's side of app-process.ts. A fixture announces itself with `emit('ready')` and answers what the test asks:
 *
 *     onRequest('publish', (body) => outbox.publish('claims', 'claim.reported', body));
 *     void start().then(() => emit('ready'));
 */

type Handler = (payload: unknown) => unknown;
const handlers = new Map<string, Handler>();
const points = new Map<string, NodeJS.Signals>();

/** Answers `request(type, payload)` of the test. What the handler returns or throws travels back. */
export function onRequest<P = unknown>(type: string, handler: (payload: P) => unknown): void {
  handlers.set(type, handler as Handler);
}

/** Tells the test something; there `waitFor(type)` sees it. Data is cloned structurally (Maps, Buffers). */
export function emit(type: string, payload?: unknown): void {
  send({ kind: 'event', type, payload });
}

/**
 * A named place where the test can have the process killed: `await killAt('after-commit')` does nothing unless the test
 * armed it (`armed: ['after-commit']` or `request('arm', …)`). The process is gone before the next statement runs.
 */
export async function killAt(point: string): Promise<void> {
  const signal = points.get(point);
  if (!signal) return;
  points.delete(point);
  // The test must learn of it before the process is gone, so wait until the pipe has taken the message.
  await new Promise<void>((resolve) =>
    send({ kind: 'event', type: 'point', payload: { point, signal } }, resolve),
  );
  process.kill(process.pid, signal);
  // SIGKILL and SIGSTOP act at once, others when the process gets to handle them.
  if (signal === 'SIGKILL') await new Promise(() => undefined);
}

onRequest<{ point: string; signal?: NodeJS.Signals }>('arm', ({ point, signal }) => {
  points.set(point, signal ?? 'SIGKILL');
});
onRequest<{ point: string }>('disarm', ({ point }) => void points.delete(point));

for (const point of (process.env.KILL_AT ?? '').split(',').filter(Boolean)) points.set(point, 'SIGKILL');

process.on('message', (message: RequestMessage) => {
  if (message?.kind !== 'request') return;
  void answer(message);
});

/**
 * From now on the pipe to the test no longer keeps this process alive: for a test that the application leaves nothing
 * open after its shutdown.
 */
export function releaseProcess(): void {
  process.channel?.unref();
}

async function answer({ id, type, payload }: RequestMessage): Promise<void> {
  try {
    const handler = handlers.get(type);
    if (!handler)
      throw new Error(`The fixture has no onRequest('${type}'); it has ${[...handlers.keys()].join(', ')}`);
    send({ kind: 'response', id, result: await handler(payload) });
  } catch (thrown) {
    const error = thrown instanceof Error ? thrown : new Error(String(thrown));
    send({ kind: 'response', id, error: { name: error.name, message: error.message, stack: error.stack } });
  }
}

function send(message: ChildMessage, sent: () => void = () => undefined): void {
  if (!process.send) return sent(); // started by hand, without a test
  process.send(message, undefined, {}, () => sent());
}
