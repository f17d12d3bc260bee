import { Module } from '@nestjs/common';
import { InfrastructureModule } from '../shared/infrastructure.module';
import { IntakeModule } from './intake.module';

@Module({ imports: [InfrastructureModule, IntakeModule] })
export class AppModule {}
