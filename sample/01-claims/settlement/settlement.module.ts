import { Module } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { Case } from './case.entity';
import { ClaimsConsumer } from './claims.consumer';

/** What settlement does. The infrastructure is in app.module.ts, so that this part runs in any app that has it. */
@Module({
  imports: [TypeOrmModule.forFeature([Case])],
  providers: [ClaimsConsumer],
})
export class SettlementModule {}
