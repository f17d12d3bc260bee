import type { Availability } from '../transport';
import type { BrokerConnection, ManagedConnection } from './amqp-types';

/** Knows whether the connection is there and whether the broker has blocked it, and tells when it is usable again. */
export class ConnectionWatch {
  private managed: ManagedConnection | undefined;
  private blocked = false;
  private readonly listeners = new Set<() => void>();

  private readonly onConnect = () => {
    this.blocked = false;
    this.announce();
  };
  private readonly onDisconnect = () => {
    this.blocked = false;
  };
  private readonly onBlocked = () => {
    this.blocked = true;
  };
  private readonly onUnblocked = () => {
    this.blocked = false;
    this.announce();
  };

  constructor(private readonly broker: BrokerConnection) {
    this.attach();
  }

  get connection() {
    return this.attach()?.connection;
  }

  availability(): Availability {
    if (!this.connection) return { available: false, reason: 'disconnected' };
    return this.blocked ? { available: false, reason: 'blocked' } : { available: true };
  }

  onAvailable(listener: () => void): () => void {
    this.attach();
    this.listeners.add(listener);
    return () => void this.listeners.delete(listener);
  }

  close(): void {
    this.listeners.clear();
    this.managed?.off('connect', this.onConnect);
    this.managed?.off('disconnect', this.onDisconnect);
    this.managed?.off('blocked', this.onBlocked);
    this.managed?.off('unblocked', this.onUnblocked);
  }

  /** golevelup makes the managed connection in `init()`, which may come after the constructor of this class. */
  private attach(): ManagedConnection | undefined {
    if (this.managed) return this.managed;
    const managed = this.broker.managedConnection;
    if (!managed) return undefined;
    this.managed = managed;
    managed.on('connect', this.onConnect);
    managed.on('disconnect', this.onDisconnect);
    managed.on('blocked', this.onBlocked);
    managed.on('unblocked', this.onUnblocked);
    return managed;
  }

  private announce(): void {
    for (const listener of [...this.listeners]) listener();
  }
}
