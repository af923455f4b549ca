/** Which answer a report speaks of. */
import { type Answer, ask, type Installed, list, object, PATIENT_MS, text, Trouble } from "./reef.ts";

const NEWEST = 20;

/** The receipt of the session's last answer as Reef has it, titles and summaries aside; empty: there is none. */
export async function lastReceipt(installed: Installed, session: string, wait: number = PATIENT_MS): Promise<string> {
  const path = `/reef/scenarios/${encodeURIComponent(installed.scenario)}/sessions/${encodeURIComponent(session)}?limit=${NEWEST}`;
  try {
    const turns = list((await ask(installed, "GET", path, wait)).turns).map(object);
    return text(turns.findLast((turn) => turn.number !== null)?.receipt);
  } catch (error) {
    if (error instanceof Trouble && error.status === 404) return "";
    throw error;
  }
}

/**
 * Stores a report on one answer. Where another server computes, the id that the agent keeps of an answer is that server's and names no
 * record: then the session's last answer is meant.
 */
export async function report(installed: Installed, session: string, receipt: string, body: Answer, wait: number): Promise<void> {
  try {
    await ask(installed, "POST", "/reef/report", wait, { ...body, references: [receipt] });
  } catch (error) {
    if (!(error instanceof Trouble) || error.status !== 400) throw error;
    const last = await lastReceipt(installed, session, wait);
    if (!last || last === receipt) throw error;
    await ask(installed, "POST", "/reef/report", wait, { ...body, references: [last] });
  }
}
