/** What a process learns on its signal connection. Neither may throw. */
export interface SignalEvents {
  /** Another process has written messages. */
  onSignal(): void;
  /** The connection is gone; not after a `close()`. */
  onLost(cause: Error): void;
}

/**
 * A connection of its own, outside of the pool, on which the processes that share an outbox table tell each other that there
 * is something new. A signal carries nothing, and may get lost: whoever listens looks into the table now and then anyway.
 */
export interface SignalConnection {
  /** Tells the others; this process does not hear it. */
  send(): Promise<void>;

  /**
   * Listens from now on, and proves that signals arrive by one to itself. May be called again, to check the connection.
   *
   * @returns false when signals do not come back, as behind a pooler that changes the session with each transaction
   */
  listen(): Promise<boolean>;

  /** Never rejects. */
  close(): Promise<void>;
}

/** @throws whatever keeps the connection from being opened */
export type OpenSignals = (events: SignalEvents) => Promise<SignalConnection>;
