import 'reflect-metadata';
import { Logger } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { AppModule } from './app.module';

async function main(): Promise<void> {
  const app = await NestFactory.createApplicationContext(AppModule);
  // On SIGTERM a job that runs is told, waited for, and gives its lock back.
  app.enableShutdownHooks();
  Logger.log(`Process ${process.pid} is up`, 'main');
}

void main();
