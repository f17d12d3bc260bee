import { ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';

/** How to run rabbitmqctl against a node; arguments follow `args`. */
export interface ControlCommand {
  file: string;
  args?: string[];
  options?: { env?: NodeJS.ProcessEnv; cwd?: string };
}

interface Waiting {
  resolve(line: string): void;
  reject(error: Error): void;
}

/** Reads `vhost <tab> queue` per line and answers `ready unacked`, or `none` for a queue that the node does not have. */
const LOOP = `
  F = fun(F) -> case io:get_line("") of
    L when is_binary(L); is_list(L) ->
      [V, Q] = binary:split(string:trim(unicode:characters_to_binary(L), trailing, [10, 13]), <<9>>),
      Answer = try
        {ok, X} = rabbit_amqqueue:lookup(rabbit_misc:r(V, queue, Q)),
        [{_, R}, {_, U}] = rabbit_amqqueue:info(X, [messages_ready, messages_unacknowledged]),
        io_lib:format("~p ~p", [R, U])
      catch _:_ -> "none" end,
      io:format("~s~n", [Answer]),
      F(F);
    _ -> ok
  end end, F(F).`;

/**
 * Asks a node how many messages of a queue are delivered and unacked: AMQP does not tell.
 *
 * Starting rabbitmqctl takes a second, and many on a busy machine; so one is started at the first question, stays, and
 * answers the next ones within a millisecond or so. It ends with its input, thus also when the test process is killed.
 */
export class QueueConsole {
  private child: ChildProcessWithoutNullStreams | undefined;
  private readonly waiting: Waiting[] = [];

  constructor(private readonly command: ControlCommand) {}

  /** `undefined` when the node has no such queue; rejects when rabbitmqctl is not there or not allowed. */
  async depth(vhost: string, queue: string): Promise<{ ready: number; unacked: number } | undefined> {
    const child = (this.child ??= this.start());
    const line = await new Promise<string>((resolve, reject) => {
      this.waiting.push({ resolve, reject });
      child.stdin.write(`${vhost}\t${queue}\n`);
    });
    const [ready, unacked] = line.split(' ').map(Number);
    return ready === undefined || unacked === undefined ? undefined : { ready, unacked };
  }

  end(): void {
    this.child?.stdin.end();
    this.child = undefined;
  }

  private start(): ChildProcessWithoutNullStreams {
    const { file, args = [], options } = this.command;
    const oneLine = LOOP.replace(/\s+/g, ' ').trim();
    const child = spawn(file, [...args, '-q', 'eval', oneLine], options ?? {});
    let complaint = '';
    child.stderr.on('data', (chunk: Buffer) => (complaint += chunk.toString()));
    child.stdin.on('error', () => undefined); // it has ended; 'close' says so to those who wait
    createInterface(child.stdout).on('line', (line) => {
      if (/^(\d+ \d+|none)$/.test(line)) this.waiting.shift()?.resolve(line);
    });
    child.on('error', (error) => (complaint += error.message));
    child.on('close', () => {
      if (this.child === child) this.child = undefined;
      const error = new Error(`rabbitmqctl has ended: ${complaint.trim() || 'its node is gone'}`);
      for (const { reject } of this.waiting.splice(0)) reject(error);
    });
    return child;
  }
}
