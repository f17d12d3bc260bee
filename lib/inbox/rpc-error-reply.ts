/** What a requester gets when its request has failed, in the place of the reply. */
import { thrownMessage } from '../message/thrown-text';
export interface RpcErrorReply {
  readonly error: {
    /** The error's class, e.g. `QueryFailedError`. */
    readonly name: string;
    readonly message: string;
  };
}

/** The header of an error reply; its value is the error's name. */
export const RPC_ERROR_HEADER = 'x-inbox-error';

/**
 * Whether an RPC reply says that the request has failed. For requesters that see the payload only, as those do that use
 * golevelup's `AmqpConnection.request()`; a requester that sees headers can look for `x-inbox-error`.
 */
export function isRpcErrorReply(reply: unknown): reply is RpcErrorReply {
  if (typeof reply !== 'object' || reply === null || Object.keys(reply).join() !== 'error') return false;
  const { error } = reply as { error: unknown };
  if (typeof error !== 'object' || error === null || Object.keys(error).sort().join() !== 'message,name') {
    return false;
  }
  const { name, message } = error as Record<string, unknown>;
  return typeof name === 'string' && typeof message === 'string';
}

/** An error reply on its way, told apart from a handler's own reply by its class. */
export class ErrorReply {
  /** @param payload what the requester gets */
  constructor(
    readonly name: string,
    readonly payload: unknown,
  ) {}
}

/**
 * Never throws. Stacks, causes and an error's further properties stay here.
 *
 * @param convert of the handler's option `errorReply`
 */
export function errorReply(error: unknown, convert?: (error: unknown) => unknown): ErrorReply {
  const name = error instanceof Error ? error.name : 'Error';
  const message = thrownMessage(error);
  const plain: RpcErrorReply = { error: { name, message } };
  try {
    return new ErrorReply(name, convert ? convert(error) : plain);
  } catch {
    return new ErrorReply(name, plain);
  }
}

/** golevelup replies with the headers of the request, so the mark has to be among those. */
export function markAsError(
  message: { readonly properties: { headers?: Record<string, unknown> } },
  { name }: ErrorReply,
): void {
  message.properties.headers = { ...message.properties.headers, [RPC_ERROR_HEADER]: name };
}
