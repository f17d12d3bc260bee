import { Scope } from '@nestjs/common';
import { MetadataScanner, type DiscoveryService, type ExternalContextCreator } from '@nestjs/core';
import { createPipeline } from './handler-pipeline';
import type { LocalHandler } from './local-handler';
import { OutboxHandlerError } from './outbox-handler.error';
import { handlersDeclaredOn } from './outbox-handler.metadata';

type InstanceWrapper = ReturnType<DiscoveryService['getProviders']>[number];

/**
 * All `@OutboxHandler()` methods of the providers and controllers of an application.
 *
 * @throws {OutboxHandlerError} for one whose class is not a singleton
 */
export function discoverLocalHandlers(
  discovery: DiscoveryService,
  creator: ExternalContextCreator,
): LocalHandler[] {
  // One instance can be there under several tokens; it is one handler.
  const seen = new Set<unknown>();
  return [...discovery.getProviders(), ...discovery.getControllers()].flatMap((wrapper) => {
    const found = handlersOf(wrapper, creator);
    if (found.length === 0 || seen.has(wrapper.instance)) return [];
    seen.add(wrapper.instance);
    return found;
  });
}

const scanner = new MetadataScanner();

function handlersOf(wrapper: InstanceWrapper, creator: ExternalContextCreator): LocalHandler[] {
  const prototype = prototypeOf(wrapper);
  if (!prototype) return [];
  return scanner.getAllMethodNames(prototype).flatMap((propertyKey) =>
    handlersDeclaredOn(prototype, propertyKey).map(({ name, options }) => {
      const owner = `${prototype.constructor.name}.${propertyKey}`;
      checkScope(wrapper, owner);
      const instance = wrapper.instance as Record<string, unknown>;
      const moduleKey = wrapper.host?.token ?? '';
      const handle = createPipeline(creator, { instance, propertyKey, moduleKey });
      return { name, owner, options, handle };
    }),
  );
}

function checkScope(wrapper: InstanceWrapper, owner: string): void {
  const isSingleton =
    wrapper.scope !== Scope.REQUEST && wrapper.scope !== Scope.TRANSIENT && wrapper.isDependencyTreeStatic();
  if (isSingleton) return;
  throw new OutboxHandlerError(
    owner,
    'request-scope',
    'its class is request-scoped or transient, itself or through something that it injects or a guard, pipe, interceptor ' +
      'or filter on it. There is no request in which it could be made. Make all of them singletons, or get what is ' +
      'scoped from ModuleRef.resolve() inside the method.',
  );
}

type Prototype = { readonly constructor: { readonly name: string } };

function prototypeOf({ instance, metatype }: InstanceWrapper): Prototype | undefined {
  const found: unknown =
    typeof instance === 'object' && instance !== null ? Object.getPrototypeOf(instance) : metatype?.prototype;
  return found === null || found === undefined ? undefined : found;
}
