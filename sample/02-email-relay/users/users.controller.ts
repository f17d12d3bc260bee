import { BadRequestException, Body, Controller, Post, Query } from '@nestjs/common';
import { User } from './user.entity';
import { type NewUser, UsersService } from './users.service';

@Controller('users')
export class UsersController {
  constructor(private readonly users: UsersService) {}

  /** @param by `event` has the mail written by a listener, anything else by the service */
  @Post()
  register(@Body() body: Partial<NewUser>, @Query('by') by?: string): Promise<User> {
    const { name, email } = body;
    if (!name || !email) throw new BadRequestException('A user needs a name and an e-mail address');
    return by === 'event'
      ? this.users.registerAndTell({ name, email })
      : this.users.register({ name, email });
  }
}
