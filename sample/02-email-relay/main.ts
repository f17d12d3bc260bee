import 'reflect-metadata';
import { Logger } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { AppModule } from './app.module';
import { settings } from './settings';

async function main(): Promise<void> {
  const app = await NestFactory.create(AppModule);
  // On SIGTERM the mails that are under way are finished, the rest stays in the outbox.
  app.enableShutdownHooks();
  await app.listen(settings.port);
  Logger.log(`The sample is up on port ${settings.port}`, 'main');
}

void main();
