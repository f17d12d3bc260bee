import type { LocalHandler } from './local-handler';
import { OutboxHandlerError } from './outbox-handler.error';

/** The local handlers of one data source, by name. Filled at start. */
export class LocalHandlers {
  private readonly byName = new Map<string, LocalHandler>();

  /** @throws {OutboxHandlerError} when there is one of this name already */
  add(handler: LocalHandler): void {
    const other = this.byName.get(handler.name);
    if (other) {
      throw new OutboxHandlerError(
        handler.owner,
        'duplicate-name',
        `the name "${handler.name}" is that of ${other.owner} too. Each message has one handler: give them different ` +
          'names, and enqueue a message for each. A class that is provided by two modules is there twice; provide it in ' +
          'one and import that.',
      );
    }
    this.byName.set(handler.name, handler);
  }

  get size(): number {
    return this.byName.size;
  }

  get names(): string[] {
    return [...this.byName.keys()];
  }

  find(name: string): LocalHandler | undefined {
    return this.byName.get(name);
  }

  /** @param transactional which of the two kinds */
  ofKind(transactional: boolean): LocalHandler[] {
    return [...this.byName.values()].filter(({ options }) => options.transactional === transactional);
  }
}

/** @param known names of the data sources that the module is registered for */
export function unknownDataSource({ owner, options }: LocalHandler, known: readonly string[]): Error {
  const names = known.map((each) => `"${each}"`).join(', ') || 'none';
  return new OutboxHandlerError(
    owner,
    'data-source',
    options.dataSource === undefined
      ? `several data sources are registered and none is the default one, so say which with the option dataSource: ${names}.`
      : `InboxOutboxModule is not registered for the data source "${options.dataSource}". It is for: ${names}.`,
  );
}
