/**
 * Answers each call of program.ts with what the function of that name returns or resolves with. The process ends when the
 * benchmark disconnects.
 */
export function serve(functions: Record<string, (args: never) => unknown>): void;
