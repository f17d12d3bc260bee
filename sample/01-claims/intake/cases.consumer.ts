import { RabbitSubscribe } from '@golevelup/nestjs-rabbitmq';
import { Injectable } from '@nestjs/common';
import { InjectRepository } from '@nestjs/typeorm';
import { Idempotent } from 'nestjs-inbox-outbox';
import { Repository } from 'typeorm';
import { CLAIMS_EXCHANGE, INTAKE_QUEUE } from '../shared/broker';
import { CaseOpened } from '../shared/messages';
import { Claim } from './claim.entity';

@Injectable()
export class CasesConsumer {
  constructor(@InjectRepository(Claim) private readonly claims: Repository<Claim>) {}

  @RabbitSubscribe({
    exchange: CLAIMS_EXCHANGE,
    routingKey: 'case.opened',
    queue: INTAKE_QUEUE,
    queueOptions: { durable: true },
  })
  @Idempotent()
  async onCaseOpened({ claimNumber, caseId }: CaseOpened): Promise<void> {
    await this.claims.update({ number: claimNumber }, { caseId });
  }
}
