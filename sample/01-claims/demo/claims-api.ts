/** Intake's HTTP interface, as a client sees it. Gives the status, or `no answer` when intake dies before it answers. */
export async function reportClaim(intakeUrl: string, number: string, loss: string): Promise<string> {
  try {
    const response = await fetch(`${intakeUrl}/claims`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ number, loss }),
    });
    await response.arrayBuffer();
    return String(response.status);
  } catch {
    return 'no answer';
  }
}
