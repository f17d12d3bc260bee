/** `nestjs-inbox-outbox/mailer`: the only part that needs nodemailer. */
export { MailerOutboxModule } from './mailer-outbox.module';
export type {
  MailerOutboxModuleExtras,
  MailerOutboxModuleOptions,
  MailTransportConfig,
  RefusedRecipient,
  RefusedRecipients,
} from './mailer-outbox.options';
export { MailerOutboxService, type OutboxMail, type SendMailOptions } from './mailer-outbox.service';
export { getMailerOutboxToken, InjectMailerOutbox } from './mailer-outbox.tokens';
export type {
  Mail,
  MailAddress,
  MailAddresses,
  MailAttachment,
  MailCalendarEvent,
  MailContent,
  MailEnvelope,
  MailHeaders,
  MailHeaderValue,
  MailListLink,
} from './mail';
