/** opencode keeps no id of an answer, so Reef is asked for it. */
import { ask, type Installed, list, object, PATIENT_MS, text, Trouble } from "./reef.ts";

const NEWEST = 20;

/** The receipt of the session's last answer, titles and summaries aside; empty: there is none. */
export async function lastReceipt(installed: Installed, session: string): Promise<string> {
  const path = `/reef/scenarios/${encodeURIComponent(installed.scenario)}/sessions/${encodeURIComponent(session)}?limit=${NEWEST}`;
  try {
    const turns = list((await ask(installed, "GET", path, PATIENT_MS)).turns).map(object);
    return text(turns.findLast((turn) => turn.number !== null)?.receipt);
  } catch (error) {
    if (error instanceof Trouble && error.status === 404) return "";
    throw error;
  }
}
