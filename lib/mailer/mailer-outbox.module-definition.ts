import { ConfigurableModuleBuilder } from '@nestjs/common';
import type { MailerOutboxModuleExtras, MailerOutboxModuleOptions } from './mailer-outbox.options';

const EXTRAS: MailerOutboxModuleExtras = { dataSource: undefined };

export const { ConfigurableModuleClass, MODULE_OPTIONS_TOKEN, OPTIONS_TYPE, ASYNC_OPTIONS_TYPE } =
  new ConfigurableModuleBuilder<MailerOutboxModuleOptions>()
    .setClassMethodName('forRoot')
    .setExtras<MailerOutboxModuleExtras>(EXTRAS, (definition) => definition)
    .build();
