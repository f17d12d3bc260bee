/**
 * Guarantees broken on purpose: for each there must be a test that notices.
 *
 * - `guarantee`: its number in the design, or what it is about
 * - `file`, `replace`, `with`: the text to find (exactly once) and what it becomes
 * - `test`: arguments for Jest, best one file and one `-t` name
 * - `why`: what goes wrong in the field when the code is like that
 * - `fails` (optional): what the failing test must say, where a test could also fail for another reason
 */
export const mutations = [
  {
    guarantee: 'G1',
    file: 'lib/outbox/outbox.service.ts',
    replace: 'const ids = await statements.insert(runnerOf(active), inserts);',
    with: 'const ids = await ownTransaction(dataSource, OWN_WRITE, (runner) => runnerOf(active) && statements.insert(runner, inserts));',
    test: ['test/integration/module/accounting.spec.ts', '-t', 'killed with SIGKILL before the commit'],
    why: 'the message is written in a transaction of its own and exists although the business row does not',
  },
  {
    guarantee: 'G2',
    file: 'lib/persistence/postgres/outbox-claim.ts',
    replace: '`(${row}.{claimed_until} IS NULL OR ${row}.{claimed_until} <= statement_timestamp())`',
    with: '`(${row}.{claimed_until} IS NULL)`',
    test: ['test/integration/outbox-dispatch/crash.spec.ts', '-t', 'killed after-claim'],
    why: 'what a killed process had claimed is never sent',
  },
  {
    guarantee: 'G2',
    file: 'lib/transport/rabbitmq/rabbitmq-transport.ts',
    replace: "return { kind: 'unknown', error: outcome.error, unanswered: true };",
    with: "return { kind: 'sent' };",
    test: ['test/integration/outbox-dispatch/outage.spec.ts', '-t', 'a broker that is frozen'],
    why: 'a message without an answer counts as sent and is lost',
  },
  {
    guarantee: 'G3',
    file: 'lib/transport/rabbitmq/amqp-message.ts',
    replace: 'mandatory: true,',
    with: 'mandatory: false,',
    test: ['test/integration/outbox-dispatch/outcomes.spec.ts', '-t', 'C32'],
    why: 'a message that no queue takes counts as sent and is lost',
  },
  {
    guarantee: 'G5',
    file: 'lib/inbox/inbox-transaction.ts',
    replace: 'if (!key || (await this.store.take(runner, key))) return false;',
    with: 'if (!key || (await this.store.find(runner, key)) === null) return false;',
    test: ['test/integration/inbox/exactly-once.spec.ts', '-t', 'G5: ten copies at once'],
    why: 'the row is looked up instead of taken, so copies that come at once are all handled',
  },
  {
    guarantee: 'G5',
    file: 'lib/inbox/inbox-store.ts',
    replace: 'return this.dialect.inbox.take(runner, key);',
    with: 'return runner && this.own((other) => this.dialect.inbox.take(other, key));',
    test: [
      'test/integration/inbox/exactly-once.spec.ts',
      '-t',
      'G5: copies at once run after the first has failed',
    ],
    why: 'the row commits by itself, so a message that has failed is taken for a duplicate and lost',
  },
  {
    guarantee: 'G5',
    file: 'lib/inbox/inbox.service.ts',
    replace: 'if (afterEnd(dataSource, note)) return;',
    with: 'if (afterEnd(dataSource, () => undefined)) return void note();',
    test: [
      'test/integration/inbox-edges/inbox-service.spec.ts',
      '-t',
      'the failure policy waits for the end of the outer transaction',
    ],
    why: 'the failure of a webhook is noted while the transaction around it holds the lock of the row',
  },
  {
    guarantee: 'G6',
    file: 'lib/inbox/idempotent.interceptor.ts',
    replace: 'return from(this.handle(handler, payload, message, next));',
    with: 'void this.handle(handler, payload, message, next);\n    return from([undefined]);',
    test: ['test/integration/inbox/crash.spec.ts', '-t', 'G6: SIGKILL inside the handler'],
    why: 'the message is acked before the handler has run',
  },
  {
    guarantee: 'G6',
    file: 'lib/inbox/handler-registry.ts',
    replace: 'this.undo.push(protectErrorPath(handler.config, subscriptions, registered, this.inboxes));',
    with: 'void [protectErrorPath, registered];',
    test: ['test/integration/inbox/outage.spec.ts', '-t', 'C21: the connection to the broker'],
    why: 'an ack on a closed channel ends the process',
  },
  {
    guarantee: 'G8',
    file: 'lib/persistence/postgres/outbox-claim.ts',
    replace: "haltOnDead ? ' AND dead.halted IS NULL' : ''",
    with: "''",
    test: ['test/integration/persistence/halted-keys.spec.ts', '-t', 'G8'],
    why: 'a key goes on without its dead message although it was to be halted',
  },
  {
    guarantee: 'C27',
    file: 'lib/outbox/sweep.ts',
    replace: 'if (last !== undefined) this.position = last;',
    with: 'void last;',
    test: ['test/integration/persistence/forgotten-snapshot.spec.ts', '-t', 'C27'],
    why: 'one forgotten transaction makes each claim walk over all that was ever sent',
  },
  {
    guarantee: 'G8',
    file: 'lib/persistence/postgres/outbox-settle.ts',
    replace: "UPDATE {} AS o SET {claimed_until} = clock_timestamp() + ${milliseconds('p.delay')}",
    with: "UPDATE {} AS o SET {claim_token} = NULL, {claimed_until} = NULL, {status} = 'scheduled', {available_at} = clock_timestamp() + ${milliseconds('p.delay')}",
    test: ['test/integration/outbox-dispatch/unanswered.spec.ts', '-t', 'G8'],
    why: 'a message without an answer waits for its next try without holding back what is behind it in its key',
  },
  {
    guarantee: 'G9',
    file: 'lib/locking/deadline.ts',
    replace: 'return this.remaining === 0;',
    with: 'return false;',
    test: ['test/integration/locking/leadership.spec.ts', '-t', 'G9'],
    why: 'a leader that slept beyond its lease sends on when it wakes, before its timers tell it so',
    fails: /Expected length: 3/,
  },
  {
    guarantee: 'G9',
    file: 'lib/locking/lock-store.ts',
    replace: 'if (grant) void this.giveBackUnanswered(grant, atMostFor);',
    with: 'if (!grant) void this.giveBackUnanswered(grant, atMostFor);',
    test: ['test/integration/locking/locking.spec.ts', '-t', 'although the answer got lost'],
    why: 'a lock that was taken without an answer keeps everybody out until it runs out',
  },
  {
    guarantee: 'G11',
    file: 'lib/inbox/inbox-delivery.ts',
    replace: 'await this.parts.lane.run(() => suspect(key))',
    with: 'await suspect(key)',
    test: ['test/integration/inbox/suspects.spec.ts'],
    why: 'the innocent neighbours of a message that kills the process die with it',
  },
  {
    guarantee: 'G12',
    file: 'lib/shutdown.ts',
    replace: 'parts.drainHandlers(left())',
    with: 'Promise.resolve()',
    test: ['test/integration/module/shutdown.spec.ts', '-t', 'what has not finished at the deadline'],
    why: 'a handler that hangs keeps the process from ever ending',
  },
];
