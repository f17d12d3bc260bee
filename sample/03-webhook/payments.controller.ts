import { BadRequestException, Body, Controller, HttpCode, NotFoundException, Post } from '@nestjs/common';
import { InjectRepository } from '@nestjs/typeorm';
import { InboxService, MessageIdError } from 'nestjs-inbox-outbox';
import { Repository } from 'typeorm';
import { Invoice } from './invoice.entity';
import type { PaymentEvent } from './payment-event';

@Controller('webhooks')
export class PaymentsController {
  constructor(
    private readonly inbox: InboxService,
    @InjectRepository(Invoice) private readonly invoices: Repository<Invoice>,
  ) {}

  @Post('payments')
  @HttpCode(200)
  async onPayment(@Body() event: PaymentEvent): Promise<{ duplicate: boolean }> {
    try {
      // The event's id and the payment are one transaction, and the provider is answered after its commit.
      const { duplicate } = await this.inbox.process('payments-webhook', event.id, () => this.pay(event));
      return { duplicate };
    } catch (error) {
      if (error instanceof MessageIdError) throw new BadRequestException(error.message);
      throw error; // not a 2xx: nothing was kept, and the provider repeats
    }
  }

  private async pay({ invoice, amount }: PaymentEvent): Promise<void> {
    const { affected } = await this.invoices.increment({ number: invoice }, 'paid', amount);
    if (affected === 0) throw new NotFoundException(`There is no invoice ${invoice} yet`);
  }
}
