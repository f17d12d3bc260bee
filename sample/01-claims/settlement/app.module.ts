import { Module } from '@nestjs/common';
import { InfrastructureModule } from '../shared/infrastructure.module';
import { SettlementModule } from './settlement.module';

@Module({ imports: [InfrastructureModule, SettlementModule] })
export class AppModule {}
