/** What a test process and its app process say to each other over Node's IPC channel. */

export interface RequestMessage {
  kind: 'request';
  id: number;
  type: string;
  payload?: unknown;
}

export interface ResponseMessage {
  kind: 'response';
  id: number;
  result?: unknown;
  error?: { name: string; message: string; stack?: string };
}

export interface EventMessage {
  kind: 'event';
  type: string;
  payload?: unknown;
}

export type ChildMessage = ResponseMessage | EventMessage;
