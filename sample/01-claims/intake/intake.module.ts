import { Module } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { CasesConsumer } from './cases.consumer';
import { Claim } from './claim.entity';
import { ClaimsController } from './claims.controller';
import { ClaimsService } from './claims.service';

/** What intake does. The infrastructure is in app.module.ts, so that this part runs in any app that has it. */
@Module({
  imports: [TypeOrmModule.forFeature([Claim])],
  controllers: [ClaimsController],
  providers: [ClaimsService, CasesConsumer],
})
export class IntakeModule {}
