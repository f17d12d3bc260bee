import { runAsHandlingOf, type MessageContext } from '../../../lib/message/message-context';
import { runInTrace } from '../../../lib/message/trace-context';
import { withContext } from '../../../lib/outbox/propagated-context';
import { toOutboxInsert } from '../../../lib/outbox/to-outbox-insert';
import type { PublishOptions } from '../../../lib/outbox/publish-options';
import { decodeTable } from '../../../lib/message/amqp-codec';

const PARENT = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
const OTHER = '00-11111111111111111111111111111111-2222222222222222-01';

const handled = (context: Partial<MessageContext> = {}): MessageContext => ({
  messageId: 'n-9921',
  correlationId: undefined,
  headers: {},
  ...context,
});

/** What a message has when it is published from the handling of another one. */
function published(context: MessageContext | undefined, options?: PublishOptions) {
  const publish = () =>
    toOutboxInsert(
      withContext({ exchange: 'e', routingKey: 'r', payload: 1, ...(options ? { options } : {}) }),
    );
  const { headers, properties } = context ? runAsHandlingOf(context, publish) : publish();
  return { headers: decodeTable(headers), ...decodeTable(properties) };
}

describe('What a message carries of the one that is being handled', () => {
  it('is nothing outside of a handler', () => {
    expect(published(undefined)).toEqual({ headers: undefined });
  });

  it('is its correlation id, its id as the cause, and its trace', () => {
    const headers = { traceparent: PARENT, tracestate: 'a=1', secret: 'stays here' };
    expect(published(handled({ correlationId: 'case-1', headers }))).toEqual({
      correlationId: 'case-1',
      headers: { 'x-causation-id': 'n-9921', traceparent: PARENT, tracestate: 'a=1' },
    });
  });

  it('is its id as correlation id where it has none', () => {
    expect(published(handled())).toEqual({
      correlationId: 'n-9921',
      headers: { 'x-causation-id': 'n-9921' },
    });
  });

  it('gives way to what the publisher gives', () => {
    const context = handled({ correlationId: 'case-1', headers: { traceparent: PARENT, tracestate: 'a=1' } });
    const headers = { traceparent: OTHER, 'x-causation-id': 'mine', more: 1 };
    // The other trace's state must not be mixed with the publisher's parent.
    expect(published(context, { correlationId: 'mine', headers })).toEqual({
      correlationId: 'mine',
      headers,
    });
    expect(published(context, { headers: { 'x-causation-id': undefined } }).headers).toEqual({
      traceparent: PARENT,
      tracestate: 'a=1',
    });
  });

  it('is left out where AMQP could not carry it', () => {
    expect(published(handled({ messageId: undefined, correlationId: 'é'.repeat(128) }))).toEqual({});
    expect(published(handled({ messageId: undefined, headers: { traceparent: 5 } }))).toEqual({});
  });

  it.each([[{ headers: null }], [{ headers: new Map() }], [{ headers: 'x' }]])(
    'does not hide that %p cannot be published',
    (options) => {
      expect(() => published(handled(), options as never)).toThrow(/headers/);
    },
  );

  it('does not change what the caller has given', () => {
    const options = Object.freeze({ headers: Object.freeze({ a: 1 }) });
    expect(published(handled(), options).headers).toEqual({ a: 1, 'x-causation-id': 'n-9921' });
    expect(options).toEqual({ headers: { a: 1 } });
  });
});

describe('With an OpenTelemetry SDK', () => {
  const REGISTERED = Symbol.for('opentelemetry.js.api.1');
  const loads = jest.fn();
  const root = { name: 'root' };
  let active: unknown;
  const api = {
    ROOT_CONTEXT: root,
    context: {
      active: () => active,
      with: (context: unknown, work: () => unknown) => {
        const before = active;
        active = context;
        try {
          return work();
        } finally {
          active = before;
        }
      },
    },
    propagation: {
      inject: (context: { traceparent?: string } | undefined, carrier: Record<string, unknown>) => {
        if (context?.traceparent) Object.assign(carrier, { traceparent: context.traceparent, odd: 5 });
      },
      extract: (context: unknown, { traceparent }: { traceparent?: string }) =>
        traceparent ? { traceparent, from: context } : context,
    },
  };
  jest.mock(
    '@opentelemetry/api',
    () => {
      loads();
      return api;
    },
    { virtual: true },
  );

  afterEach(() => {
    active = undefined;
    Reflect.deleteProperty(globalThis, REGISTERED);
  });
  const register = () => Object.assign(globalThis, { [REGISTERED]: {} });

  it('the API is not loaded before an SDK is registered', () => {
    active = { traceparent: PARENT };
    expect(published(undefined)).toEqual({});
    expect(runInTrace({ traceparent: PARENT }, () => 7)).toBe(7);
    expect(loads).not.toHaveBeenCalled();
  });

  it('a message carries the active span, and without one the trace of the message that is handled', () => {
    register();
    const context = handled({ headers: { traceparent: OTHER } });
    expect(published(context).headers).toMatchObject({ traceparent: OTHER });
    active = { traceparent: PARENT };
    expect(published(context).headers).toEqual({ 'x-causation-id': 'n-9921', traceparent: PARENT });
    expect(published(undefined).headers).toEqual({ traceparent: PARENT });
    expect(published(undefined, { headers: { traceparent: OTHER } }).headers).toEqual({ traceparent: OTHER });
    expect(loads).toHaveBeenCalledTimes(1);
  });

  it('a message is sent in its own trace and not in that of whoever woke the dispatcher', () => {
    register();
    active = { traceparent: OTHER };
    const seen = () => active;
    expect(runInTrace({ traceparent: PARENT }, seen)).toEqual({ traceparent: PARENT, from: root });
    expect(runInTrace({}, seen)).toBe(root);
    expect(runInTrace(undefined, seen)).toBe(root);
  });

  it('a fault in the telemetry does not keep a message from being written or sent', () => {
    register();
    active = { traceparent: PARENT };
    const broken = () => {
      throw new Error('broken');
    };
    jest.spyOn(api.propagation, 'inject').mockImplementationOnce(broken);
    jest.spyOn(api.propagation, 'extract').mockImplementationOnce(broken);
    expect(published(undefined)).toEqual({});
    expect(runInTrace({ traceparent: PARENT }, () => 7)).toBe(7);
  });
});
