import { Inject, type InjectionToken } from '@nestjs/common';
import { DEFAULT_DATA_SOURCE } from '../injection-tokens';
import { MailerOutboxService } from './mailer-outbox.service';

/** Token of the {@link MailerOutboxService} that writes to a data source's outbox. */
export const getMailerOutboxToken = (
  dataSource: string = DEFAULT_DATA_SOURCE,
): InjectionToken<MailerOutboxService> =>
  dataSource === DEFAULT_DATA_SOURCE ? MailerOutboxService : `${dataSource}${MailerOutboxService.name}`;

/** Injects the {@link MailerOutboxService} of a named data source. */
export const InjectMailerOutbox = (dataSource?: string): ParameterDecorator & PropertyDecorator =>
  Inject(getMailerOutboxToken(dataSource));
