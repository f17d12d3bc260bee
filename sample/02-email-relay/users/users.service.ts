import { Injectable } from '@nestjs/common';
import { EventEmitter2 } from '@nestjs/event-emitter';
import { InjectDataSource, InjectRepository } from '@nestjs/typeorm';
import { MailerOutboxService } from 'nestjs-inbox-outbox/mailer';
import { DataSource, Repository } from 'typeorm';
import { confirmationMail } from './confirmation-mail';
import { User } from './user.entity';
import { USER_REGISTERED } from './user-registered.event';

export type NewUser = Pick<User, 'name' | 'email'>;

@Injectable()
export class UsersService {
  constructor(
    @InjectDataSource() private readonly dataSource: DataSource,
    @InjectRepository(User) private readonly users: Repository<User>,
    private readonly mailer: MailerOutboxService,
    private readonly events: EventEmitter2,
  ) {}

  /** The user and the mail are written in one transaction: both exist, or neither does. */
  register(newUser: NewUser): Promise<User> {
    return this.dataSource.transaction(async () => {
      const user = await this.users.save(this.users.create(newUser));
      await this.mailer.send(confirmationMail(user));
      return user;
    });
  }

  /** The same, without knowing that there are mails. `emitAsync` waits for the listeners, so they run inside. */
  registerAndTell(newUser: NewUser): Promise<User> {
    return this.dataSource.transaction(async () => {
      const user = await this.users.save(this.users.create(newUser));
      await this.events.emitAsync(USER_REGISTERED, user);
      return user;
    });
  }
}
