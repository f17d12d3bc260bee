import { CallHandler, ExecutionContext, Injectable, NestInterceptor, UseInterceptors } from '@nestjs/common';
import { InjectDataSource } from '@nestjs/typeorm';
import * as library from 'nestjs-inbox-outbox';
import { from, lastValueFrom, Observable } from 'rxjs';
import { DataSource } from 'typeorm';

/**
 * What a careful service does that knows no inbox: the handler runs in a transaction, so that its case and its message are
 * both there or neither. Only the note that the message was handled is missing.
 */
@Injectable()
class PlainTransaction implements NestInterceptor {
  constructor(@InjectDataSource() private readonly dataSource: DataSource) {}

  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    return from(this.dataSource.transaction(() => lastValueFrom(next.handle(), { defaultValue: undefined })));
  }
}

/** Must run before the services are loaded. From then on `@Idempotent()` stands for a plain transaction. */
export function leaveOffIdempotent(): void {
  const loaded = Object.values(require.cache).find((module) => module?.exports === library);
  if (!loaded) throw new Error('The library is not loaded as one module');
  loaded.exports = { ...library, Idempotent: () => UseInterceptors(PlainTransaction) };
}
