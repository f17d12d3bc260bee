import 'reflect-metadata';
import { Logger } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { AppModule } from './app.module';

async function main(): Promise<void> {
  const app = await NestFactory.createApplicationContext(AppModule);
  // On SIGTERM running handlers are finished, and what has not begun goes back to the queue.
  app.enableShutdownHooks();
  Logger.log('Settlement is up', 'main');
}

void main();
