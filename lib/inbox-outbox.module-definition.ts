import { ConfigurableModuleBuilder } from '@nestjs/common';
import type { InboxOutboxModuleExtras, InboxOutboxModuleOptions } from './inbox-outbox.options';

const EXTRAS: InboxOutboxModuleExtras = {
  dataSource: undefined,
  schema: undefined,
  outboxTable: undefined,
  inboxTable: undefined,
  lockTable: undefined,
};

export const { ConfigurableModuleClass, MODULE_OPTIONS_TOKEN, OPTIONS_TYPE, ASYNC_OPTIONS_TYPE } =
  new ConfigurableModuleBuilder<InboxOutboxModuleOptions>()
    .setClassMethodName('forRoot')
    .setExtras<InboxOutboxModuleExtras>(EXTRAS, (definition) => definition)
    .build();
