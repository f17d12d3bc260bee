import { Module } from '@nestjs/common';
import { IntakeModule } from '../intake/intake.module';
import { SettlementModule } from '../settlement/settlement.module';
import { InfrastructureModule } from '../shared/infrastructure.module';

/** Both services in one application: the in-process broker cannot leave the process. */
@Module({ imports: [InfrastructureModule, IntakeModule, SettlementModule] })
export class OneAppModule {}
