import { RabbitMQModule } from '@golevelup/nestjs-rabbitmq';
import { Module } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { InboxOutboxModule } from 'nestjs-inbox-outbox';
import { broker } from './broker';
import { settings } from './settings';

/** Each service has a database of its own, and in it the module's tables. */
@Module({
  imports: [
    TypeOrmModule.forRoot({
      type: 'postgres',
      url: settings.databaseUrl,
      autoLoadEntities: true,
      synchronize: true, // for a sample; with real data use migrations
    }),
    RabbitMQModule.forRoot(broker),
    InboxOutboxModule.forRoot({
      outbox: {
        lease: '5s', // after this long another instance takes over what a dead one was sending
        retention: '1d', // keep what was sent for a day, to look at; by default it is deleted
      },
    }),
  ],
})
export class InfrastructureModule {}
