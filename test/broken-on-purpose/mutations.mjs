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
    guarantee: 'G3',
    file: 'lib/transport/rabbitmq/amqp-message.ts',
    replace: 'mandatory: true,',
    with: 'mandatory: false,',
    test: ['test/integration/outbox-dispatch/outcomes.spec.ts', '-t', 'C32'],
    why: 'a message that no queue takes counts as sent and is lost',
  },
];
