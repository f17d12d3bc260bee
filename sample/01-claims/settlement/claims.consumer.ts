import { RabbitSubscribe } from '@golevelup/nestjs-rabbitmq';
import { Injectable } from '@nestjs/common';
import { InjectRepository } from '@nestjs/typeorm';
import { Idempotent, OutboxService } from 'nestjs-inbox-outbox';
import { Repository } from 'typeorm';
import { CLAIMS_EXCHANGE, SETTLEMENT_QUEUE } from '../shared/broker';
import { CaseOpened, ClaimReported } from '../shared/messages';
import { Case } from './case.entity';

@Injectable()
export class ClaimsConsumer {
  constructor(
    @InjectRepository(Case) private readonly cases: Repository<Case>,
    private readonly outbox: OutboxService,
  ) {}

  /** The case, the message about it and the note that this claim was handled are written in one transaction. */
  @RabbitSubscribe({
    exchange: CLAIMS_EXCHANGE,
    routingKey: 'claim.reported',
    queue: SETTLEMENT_QUEUE,
    queueOptions: { durable: true },
  })
  @Idempotent()
  async onClaimReported(claim: ClaimReported): Promise<void> {
    const opened = await this.cases.save({ claimNumber: claim.number });
    const message: CaseOpened = { claimNumber: claim.number, caseId: opened.id };
    await this.outbox.publish(CLAIMS_EXCHANGE, 'case.opened', message);
  }
}
