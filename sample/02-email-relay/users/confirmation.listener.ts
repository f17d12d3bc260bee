import { Injectable } from '@nestjs/common';
import { OnEvent } from '@nestjs/event-emitter';
import { MailerOutboxService } from 'nestjs-inbox-outbox/mailer';
import { confirmationMail } from './confirmation-mail';
import { User } from './user.entity';
import { USER_REGISTERED } from './user-registered.event';

/** Knows nothing of transactions, and yet its mail is part of the one in which the event was emitted. */
@Injectable()
export class ConfirmationListener {
  constructor(private readonly mailer: MailerOutboxService) {}

  // Errors are not suppressed: without its mail a user must not be registered.
  @OnEvent(USER_REGISTERED, { suppressErrors: false })
  async onUserRegistered(user: User): Promise<void> {
    await this.mailer.send(confirmationMail(user));
  }
}
