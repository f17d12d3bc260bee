import { setMaxListeners } from 'node:events';

/** One whose signal has a listener for each piece of work under way; from eleven on Node would warn of a leak. */
export function abortControllerForMany(): AbortController {
  const controller = new AbortController();
  setMaxListeners(0, controller.signal);
  return controller;
}
