import { EXCEPTION_FILTERS_METADATA } from '@nestjs/common/constants';
import type { ExternalContextCreator } from '@nestjs/core';
import { parametersFactory, parametersKey } from './handler-parameters';
import type { LocalHandler } from './local-handler';
import { OUTBOX_CONTEXT_TYPE } from './outbox-handler-context';

/** A method, and where Nest has it. */
export interface PipelineTarget {
  readonly instance: Record<string, unknown>;
  readonly propertyKey: string;
  /** Key of the module that provides the class: its guards and filters come from there. */
  readonly moduleKey: string;
}

type Method = (...args: unknown[]) => unknown;

/**
 * The method with everything that Nest puts around it: guards → interceptors → pipes → method, and filters around all.
 *
 * Success is what the part inside the filters did: a filter can log an error or replace it, but not make a run that has
 * failed count as done. So filters are a second pipeline around the first.
 */
export function createPipeline(
  creator: ExternalContextCreator,
  { instance, propertyKey, moduleKey }: PipelineTarget,
): LocalHandler['handle'] {
  const method = instance[propertyKey] as Method;
  const classRef = instance.constructor;
  const own = inModule(creator, moduleKey);
  const run = own.create(
    instance,
    method,
    propertyKey,
    parametersKey(classRef, propertyKey),
    parametersFactory,
    undefined,
    undefined,
    { guards: true, interceptors: true, filters: false },
    OUTBOX_CONTEXT_TYPE,
  );
  // By the context, of which each run has its own.
  const failures = new WeakMap<object, { readonly error: unknown }>();
  const noting: Method = async (...args) => {
    try {
      return await run(...args);
    } catch (error) {
      failures.set(args[1] as object, { error });
      throw error;
    }
  };
  copyFilters(method, noting);
  const filtered = own.create(
    instance,
    noting,
    '',
    undefined,
    undefined,
    undefined,
    undefined,
    { guards: false, interceptors: false, filters: true },
    OUTBOX_CONTEXT_TYPE,
  );
  return async (payload, context) => {
    await filtered(payload, context);
    const failure = failures.get(context);
    if (failure) throw failure.error;
  };
}

/** Nest looks for the module of a class among providers only, and leaves out enhancer classes on controllers. */
function inModule(creator: ExternalContextCreator, moduleKey: string): ExternalContextCreator {
  return Object.create(creator, {
    getContextModuleKey: { value: () => moduleKey },
  }) as ExternalContextCreator;
}

function copyFilters(from: Method, to: Method): void {
  const filters: unknown = Reflect.getMetadata(EXCEPTION_FILTERS_METADATA, from);
  if (filters !== undefined) Reflect.defineMetadata(EXCEPTION_FILTERS_METADATA, filters, to);
}
