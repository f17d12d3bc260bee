import { Module } from '@nestjs/common';
import { EventEmitterModule } from '@nestjs/event-emitter';
import { TypeOrmModule } from '@nestjs/typeorm';
import { InboxOutboxModule } from 'nestjs-inbox-outbox';
import { MailerOutboxModule } from 'nestjs-inbox-outbox/mailer';
import { mailTransport } from './mail-transport';
import { settings } from './settings';
import { UsersModule } from './users/users.module';

@Module({
  imports: [
    TypeOrmModule.forRoot({
      type: 'postgres',
      url: settings.databaseUrl,
      autoLoadEntities: true,
      synchronize: true, // for a sample; with real data use migrations
    }),
    EventEmitterModule.forRoot(),
    // No RabbitMQ: mails leave from here.
    InboxOutboxModule.forRoot({
      outbox: {
        lease: '4s', // after this long another instance takes over what a dead one was sending
        retention: '1d', // keep what was sent for a day, to look at; by default it is deleted
      },
    }),
    MailerOutboxModule.forRoot({
      transport: mailTransport(),
      from: 'Claims <no-reply@example.com>',
      rateLimit: 50, // a second
      backoff: { initialDelay: settings.firstRetryMs },
    }),
    UsersModule,
  ],
})
export class AppModule {}
