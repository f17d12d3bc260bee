import { setTimeout as delay } from 'node:timers/promises';

/** Prints the story, and keeps count of what did not turn out as it should. */
const colours = process.stdout.isTTY && !process.env.NO_COLOR;
const paint = (code: number) => (text: string) => (colours ? `\u001b[${code}m${text}\u001b[0m` : text);
const bold = paint(1);
const dim = paint(2);
const red = paint(31);
const green = paint(32);

let steps = 0;
let failures = 0;

export const title = (text: string) => console.log(`\n${bold(text)}`);
export const step = (text: string) => console.log(`\n${bold(`${++steps}. ${text}`)}`);
export const say = (text: string) => console.log(`   ${text}`);
export const aside = (text: string) => console.log(dim(`   ${text}`));

/** What a table holds, one row a line. */
export function show(table: string, rows: string[]): void {
  const lines = rows.length > 0 ? rows : ['(empty)'];
  lines.forEach((row, index) => console.log(`     ${(index === 0 ? table : '').padEnd(20)}${dim(row)}`));
}

export function check(statement: string, holds: boolean): void {
  if (!holds) failures++;
  console.log(`   ${holds ? green('✓') : red('✗ not true:')} ${statement}`);
}

export const failed = () => failures;

/** Waits until it is so. What should have happened by now and has not is the demo's failure. */
export async function until(
  description: string,
  holds: () => Promise<boolean> | boolean,
  seconds = 30,
): Promise<void> {
  const deadline = Date.now() + seconds * 1000;
  while (!(await holds())) {
    if (Date.now() > deadline) throw new Error(`Waited ${seconds} s in vain until ${description}`);
    await delay(25);
  }
}
