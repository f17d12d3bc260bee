import type { Mail } from 'nestjs-inbox-outbox/mailer';
import type { User } from './user.entity';

export function confirmationMail({ id, name, email }: User): Mail {
  return {
    to: { name, address: email },
    subject: 'Please confirm your address',
    text: `Hello ${name},\n\nplease confirm: https://example.com/users/${id}/confirm\n`,
  };
}
