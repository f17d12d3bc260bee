import { Injectable } from '@nestjs/common';
import { InjectDataSource, InjectRepository } from '@nestjs/typeorm';
import { OutboxService } from 'nestjs-inbox-outbox';
import { DataSource, Repository } from 'typeorm';
import { CLAIMS_EXCHANGE } from '../shared/broker';
import { ClaimReported } from '../shared/messages';
import { Claim } from './claim.entity';

@Injectable()
export class ClaimsService {
  constructor(
    @InjectDataSource() private readonly dataSource: DataSource,
    @InjectRepository(Claim) private readonly claims: Repository<Claim>,
    private readonly outbox: OutboxService,
  ) {}

  /** The claim and its message are written in one transaction: both exist, or neither does. */
  async report(claim: ClaimReported): Promise<void> {
    await this.dataSource.transaction(async () => {
      await this.claims.insert(claim);
      await this.outbox.publish(CLAIMS_EXCHANGE, 'claim.reported', claim);
    });
  }

  find(number: string): Promise<Claim | null> {
    return this.claims.findOneBy({ number });
  }
}
