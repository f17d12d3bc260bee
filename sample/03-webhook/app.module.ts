import { Module } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { InboxOutboxModule } from 'nestjs-inbox-outbox';
import { Invoice } from './invoice.entity';
import { PaymentsController } from './payments.controller';
import { settings } from './settings';

@Module({
  imports: [
    TypeOrmModule.forRoot({
      type: 'postgres',
      url: settings.databaseUrl,
      autoLoadEntities: true,
      synchronize: true, // for a sample; with real data use migrations
    }),
    TypeOrmModule.forFeature([Invoice]),
    // Nothing to send here, thus no RabbitMQ: only the inbox is used.
    InboxOutboxModule.forRoot({ outbox: { dispatch: 'off' } }),
  ],
  controllers: [PaymentsController],
})
export class AppModule {}
