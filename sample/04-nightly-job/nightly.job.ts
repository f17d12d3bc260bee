import { Injectable } from '@nestjs/common';
import { Cron } from '@nestjs/schedule';
import { InjectRepository } from '@nestjs/typeorm';
import { LockContext, SchedulerLock } from 'nestjs-inbox-outbox';
import { Repository } from 'typeorm';
import { Report } from './report.entity';
import { settings } from './settings';

@Injectable()
export class NightlyJob {
  constructor(@InjectRepository(Report) private readonly reports: Repository<Report>) {}

  /** Every process has this timer; one of them gets the lock and runs, and the others skip. */
  @Cron(settings.nightly)
  @SchedulerLock({ name: 'nightly-report', lockAtMostFor: '10m', lockAtLeastFor: settings.atLeast })
  async makeReport({ signal, fence }: LockContext): Promise<void> {
    // Before each step that takes long: whoever has lost the lock must not go on.
    signal.throwIfAborted();
    await this.reports.insert({ madeBy: process.pid, fence: String(fence) });
  }
}
