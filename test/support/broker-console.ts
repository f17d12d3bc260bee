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

/** Reads Erlang expressions, one per line, and answers each with one line that starts with a marker. */
const LOOP = `
  F = fun(F) -> case io:get_line("") of
    L when is_binary(L); is_list(L) ->
      Answer = try
        {ok, Tokens, _} = erl_scan:string(unicode:characters_to_list(L)),
        {ok, Parsed} = erl_parse:parse_exprs(Tokens),
        {value, Value, _} = erl_eval:exprs(Parsed, []),
        {done, Value}
      catch _:Reason -> {failed, Reason} end,
      io:format("~0p~n", [Answer]),
      F(F);
    _ -> ok
  end end, F(F).`;

const ANSWER = /^\{(done|failed),(.*)\}$/;

/**
 * A standing rabbitmqctl. Starting one takes a second, and up to twenty on a busy machine; this one is started at the
 * first question, stays, and answers the next ones within a few milliseconds. It survives stop_app, but not the node. It
 * ends with its input, thus also when the test process is killed.
 */
export class BrokerConsole {
  private child: ChildProcessWithoutNullStreams | undefined;
  private readonly waiting: Waiting[] = [];

  constructor(private readonly command: ControlCommand) {}

  /**
   * The value of an Erlang expression (with its full stop), as Erlang prints it. Rejects when the expression fails, and
   * when rabbitmqctl is not there, not allowed or has lost its node.
   */
  async evaluate(expression: string): Promise<string> {
    const child = (this.child ??= this.start());
    const line = await new Promise<string>((resolve, reject) => {
      this.waiting.push({ resolve, reject });
      child.stdin.write(`${expression.replace(/\s+/g, ' ')}\n`);
    });
    const [, outcome, value = ''] = ANSWER.exec(line) ?? [];
    if (outcome !== 'done') throw new Error(`The node could not evaluate ${expression}: ${value}`);
    return value;
  }

  end(): void {
    this.child?.stdin.end();
    this.child = undefined;
  }

  private start(): ChildProcessWithoutNullStreams {
    const { file, args = [], options } = this.command;
    const child = spawn(file, [...args, '-q', 'eval', LOOP.replace(/\s+/g, ' ').trim()], options ?? {});
    let complaint = '';
    child.stderr.on('data', (chunk: Buffer) => (complaint += chunk.toString()));
    child.stdin.on('error', () => undefined); // it has ended; 'close' says so to those who wait
    createInterface(child.stdout).on('line', (line) => {
      if (ANSWER.test(line)) this.waiting.shift()?.resolve(line);
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

/** Text as an Erlang binary, whatever characters it has. */
export function erlangBinary(text: string): string {
  return `<<${[...Buffer.from(text)].join(',')}>>`;
}
