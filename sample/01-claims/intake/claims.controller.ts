import { BadRequestException, Body, Controller, Get, NotFoundException, Param, Post } from '@nestjs/common';
import { ClaimReported } from '../shared/messages';
import { Claim } from './claim.entity';
import { ClaimsService } from './claims.service';

@Controller('claims')
export class ClaimsController {
  constructor(private readonly claims: ClaimsService) {}

  @Post()
  async report(@Body() body: Partial<ClaimReported>): Promise<{ number: string }> {
    const { number, loss } = body;
    if (!number || !loss) throw new BadRequestException('A claim needs a number and a loss');
    await this.claims.report({ number, loss });
    return { number };
  }

  @Get(':number')
  async get(@Param('number') number: string): Promise<Claim> {
    const claim = await this.claims.find(number);
    if (!claim) throw new NotFoundException(`No claim ${number}`);
    return claim;
  }
}
