/** A JSON body of exactly 200 bytes. */
export function body(n: number): { n: number; pad: string } {
  const bare = JSON.stringify({ n, pad: '' }).length;
  return { n, pad: 'x'.repeat(200 - bare) };
}
