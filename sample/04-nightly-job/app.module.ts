import { Module } from '@nestjs/common';
import { ScheduleModule } from '@nestjs/schedule';
import { TypeOrmModule } from '@nestjs/typeorm';
import { InboxOutboxModule } from 'nestjs-inbox-outbox';
import { NightlyJob } from './nightly.job';
import { Report } from './report.entity';
import { settings } from './settings';

@Module({
  imports: [
    TypeOrmModule.forRoot({
      type: 'postgres',
      url: settings.databaseUrl,
      autoLoadEntities: true,
      synchronize: true, // for a sample; with real data use migrations
    }),
    TypeOrmModule.forFeature([Report]),
    ScheduleModule.forRoot(),
    // Nothing to send here, thus no RabbitMQ: only the locks are used.
    InboxOutboxModule.forRoot({ outbox: { dispatch: 'off' } }),
  ],
  providers: [NightlyJob],
})
export class AppModule {}
