/**
 * Where the tests look for PostgreSQL and RabbitMQ. One place for `npm run services` (plain JavaScript) and for test/support.
 *
 * 1. DATABASE_URL / AMQP_URL;
 * 2. what `npm run services` started elsewhere, because the usual port was taken (a small file in the temporary folder);
 * 3. the usual ports with the usual login.
 */
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');

/** A server that trusts local logins does not ask for the password, so that one URL fits both kinds. */
const DEFAULT_DATABASE_URL = 'postgres://postgres:postgres@127.0.0.1:5432/postgres';
const DEFAULT_AMQP_URL = 'amqp://guest:guest@127.0.0.1:5672';

/** Per user, outside the repository: data, logs and URLs of what `npm run services` started by itself. */
const user = typeof process.getuid === 'function' ? process.getuid() : os.userInfo().username;
const servicesFolder = path.join(os.tmpdir(), `nestjs-inbox-outbox-services-${user}`);
const urlsFile = path.join(servicesFolder, 'urls.json');

function startedElsewhere() {
  try {
    // The temporary folder belongs to everybody: another user's file must not send our tests somewhere.
    if (typeof process.getuid === 'function' && fs.statSync(urlsFile).uid !== process.getuid()) return {};
    return JSON.parse(fs.readFileSync(urlsFile, 'utf8'));
  } catch {
    return {};
  }
}

function databaseUrl() {
  return process.env.DATABASE_URL || startedElsewhere().databaseUrl || DEFAULT_DATABASE_URL;
}

function amqpUrl() {
  return process.env.AMQP_URL || startedElsewhere().amqpUrl || DEFAULT_AMQP_URL;
}

module.exports = { DEFAULT_DATABASE_URL, DEFAULT_AMQP_URL, servicesFolder, urlsFile, databaseUrl, amqpUrl };
