import 'reflect-metadata';
import { Logger } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { settings } from '../shared/settings';
import { AppModule } from './app.module';

async function main(): Promise<void> {
  const app = await NestFactory.create(AppModule);
  // On SIGTERM what is in flight is finished or handed back.
  app.enableShutdownHooks();
  await app.listen(settings.port);
  Logger.log(`Intake is up on port ${settings.port}`, 'main');
}

void main();
