import fs from 'node:fs';
import { installPackage, mayInstallPackages } from './debian.mjs';
import { dockerAnswers, startContainer } from './docker.mjs';
import { freePort, listens } from './network.mjs';
import { eventually } from './wait.mjs';

/**
 * Makes one server available; resolves with its URL and a sentence that says what was done.
 *
 * 1. What listens at the wanted URL and lets us in is used as it is.
 * 2. Otherwise one is started at that port, or at a free one when somebody else's server has it:
 *    a) in Docker, when an engine answers;
 *    b) from what is installed, with data of its own under the temporary folder; the system's servers stay untouched;
 *    c) from Debian's package, which is installed first.
 * 3. Otherwise it says what to install.
 */
export async function ensureService(service) {
  const wanted = service.wantedUrl();
  const there = await tryLogIn(service, wanted);
  if (there.version)
    return { url: wanted, did: `version ${there.version} was already running, so it is used as it is` };

  const url = await placeFor(service, wanted, there.error);
  const port = Number(new URL(url).port);
  if (dockerAnswers()) {
    const name = startContainer(service, port);
    const version = await eventually(() => service.logIn(url), { timeout: 120_000 });
    return { url, did: `started version ${version} in Docker (to end it: docker rm -f ${name})` };
  }
  const started = await service.start(port);
  if (started) return startedHere(service, url, started);
  if (mayInstallPackages()) return afterInstallation(service, url, port);
  throw new Error(
    `${service.name} is not running (${there.error.message}), Docker does not answer and ${service.packageName} is not ` +
      `installed. Start Docker, or install ${service.packageName}, or set ${service.variable} to a server you have.`,
  );
}

/** Where a server of ours can listen: as wanted, or beside a server that does not let us in. */
async function placeFor(service, wanted, refusal) {
  const { hostname, port } = new URL(wanted);
  const explicit = Boolean(process.env[service.variable]);
  const here = ['127.0.0.1', 'localhost', '[::1]'].includes(hostname);
  const taken = await listens(hostname.replace(/[[\]]/g, ''), Number(port) || service.port);
  if (explicit && (taken || !here)) {
    throw new Error(`${service.variable} is set, but ${hostname} does not let us in: ${refusal.message}`);
  }
  // Ours has the usual login, whatever login another one at that port would ask for.
  const url = new URL(service.defaultUrl);
  url.port = String(taken ? await freePort() : Number(port) || service.port);
  return url.href;
}

async function startedHere(service, url, { child, logFile, what }) {
  let exit;
  child.once('exit', (code, signal) => (exit = signal ?? code));
  const ended = () =>
    exit === undefined ? undefined : `${what} ended with ${exit} while starting:\n${tail(logFile)}`;
  const version = await eventually(() => service.logIn(url), { timeout: 90_000, ended });
  child.unref();
  return { url, did: `started ${what} (version ${version}) for these tests (to end it: kill ${child.pid})` };
}

async function afterInstallation(service, url, port) {
  if (!installPackage(service.packageName))
    throw new Error(`apt-get install ${service.packageName} failed, see above`);
  // The package may have started its own server by now; if it lets us in, so much the better.
  const own = await tryLogIn(service, url);
  if (own.version)
    return { url, did: `installed ${service.packageName}, which started version ${own.version}` };
  const free = (await listens('127.0.0.1', port)) ? await freePort() : port;
  const place = new URL(url);
  place.port = String(free);
  const started = await service.start(free);
  if (!started) throw new Error(`${service.packageName} is installed, but its programs were not found`);
  const { did, url: startedUrl } = await startedHere(service, place.href, started);
  return { url: startedUrl, did: `installed ${service.packageName} and ${did}` };
}

async function tryLogIn(service, url) {
  try {
    return { version: await service.logIn(url) };
  } catch (error) {
    return { error };
  }
}

function tail(file) {
  return fs.readFileSync(file, 'utf8').split('\n').slice(-20).join('\n');
}
