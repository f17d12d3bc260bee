import { SendEmailCommand, SESv2Client } from '@aws-sdk/client-sesv2';
import type { MailTransportConfig } from 'nestjs-inbox-outbox/mailer';
import { settings } from './settings';

/** SMTP or SES: that is all that changes. Credentials come from where the AWS SDK looks for them. */
export function mailTransport(): MailTransportConfig {
  if (settings.mailBy === 'smtp') return settings.smtpUrl;
  return { SES: { sesClient: new SESv2Client({ endpoint: settings.sesEndpoint }), SendEmailCommand } };
}
