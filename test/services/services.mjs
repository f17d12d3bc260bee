/**
 * `npm run services`: makes PostgreSQL and RabbitMQ available for the tests and says what it did. May be run at any time;
 * what is there stays as it is. Ends when both answer (exit code 0) or when one cannot be had (1). Writes nothing to the
 * repository; see ensure-service.mjs for the order in which it tries.
 */
import fs from 'node:fs';
import { ensureService } from './ensure-service.mjs';
import { postgresService } from './postgres.service.mjs';
import { rabbitmqService } from './rabbitmq.service.mjs';
import { servicesFolder, urlsFile } from './server-urls.js';

const moved = {};
let failed = false;
for (const service of [postgresService, rabbitmqService]) {
  try {
    const { url, did } = await ensureService(service);
    console.log(`${service.name}: ${did}.\n  ${service.variable}=${url}`);
    if (!process.env[service.variable] && url !== service.defaultUrl) moved[service.setting] = url;
  } catch (error) {
    failed = true;
    console.error(`${service.name}: ${error.message}`);
  }
}

// So that `npm test` finds servers that are not at their usual port, without any variable set.
if (Object.keys(moved).length > 0) {
  fs.mkdirSync(servicesFolder, { recursive: true, mode: 0o711 });
  fs.writeFileSync(urlsFile, JSON.stringify(moved, null, 2));
} else if (!failed) {
  fs.rmSync(urlsFile, { force: true });
}
process.exit(failed ? 1 : 0);
