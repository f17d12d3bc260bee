import { ServerResponse } from 'node:http';

/** Preloaded into the application: when the demo says so, the process dies at the moment at which it would answer. */
process.on('message', () => {
  const dying: ServerResponse['end'] = () => process.kill(process.pid, 'SIGKILL') as never;
  ServerResponse.prototype.end = dying;
  process.send?.('armed');
});
