/**
 * Reef inside pi: says what changed since the installed release, takes feedback and updates, and tells Reef which session, release and
 * folder a request belongs to. Reef being down costs one line.
 */
import type { ExtensionAPI, ExtensionContext } from "@earendil-works/pi-coding-agent";
import { changesPath, registerCommands } from "./commands.ts";
import { ask, BRIEF_MS, type Installed, readInstalled, Trouble } from "./reef.ts";
import { tagRequests } from "./requests.ts";
import { reportRuns } from "./runs.ts";
import { fits, notice, showStatus, spokesman, statusLine, tell } from "./telling.ts";
import { registerUpdate } from "./update.ts";

const AGAIN_MS = 60_000;

export default function reef(pi: ExtensionAPI): void {
  let installed: Installed;
  try {
    installed = readInstalled();
  } catch {
    pi.on("session_start", (_event, ctx) => tell(ctx, "Reef's settings in pi's folder are damaged. Type: reef install pi", "error"));
    return;
  }
  tagRequests(pi, installed);
  registerCommands(pi, installed);
  registerUpdate(pi, installed);
  reportRuns(pi, installed);

  let lookedAt = 0;
  let told = "";
  const look = async (ctx: ExtensionContext, quiet: boolean): Promise<void> => {
    lookedAt = Date.now();
    try {
      const { status, message, kind } = await lookUp(installed, ctx.hasUI);
      showStatus(ctx, status);
      if (message && message !== told && !quiet) tell(ctx, message, kind);
      told = message;
    } catch {
      // The session was replaced meanwhile; the new one looks for itself.
    }
  };

  // Not awaited: pi starts at once, and the notice comes when Reef has answered.
  pi.on("session_start", (event, ctx) => {
    spokesman.tell = (message) => tell(ctx, message);
    void look(ctx, event.reason === "reload");
  });
  pi.on("agent_settled", (_event, ctx) => {
    if (ctx.hasUI && Date.now() - lookedAt >= AGAIN_MS) void look(ctx, false);
  });
}

/** What to show of the release that serves, or of Reef's silence. */
async function lookUp(installed: Installed, hasUI: boolean): Promise<{ status: string; message: string; kind: "info" | "warning" }> {
  const here = installed.release_id ? `Reef ${installed.release_id}` : "Reef";
  try {
    const changes = await ask(installed, "GET", changesPath(installed), BRIEF_MS);
    const kind = fits(installed, changes) ? "info" : "warning";
    return { status: statusLine(installed, changes), message: notice(installed, changes, hasUI), kind };
  } catch (error) {
    if (!(error instanceof Trouble)) throw error;
    const early = error.status === 404 && !installed.release_id; // the scenario begins with its first request
    return { status: error.status === 0 ? "Reef is down" : here, message: early ? "" : error.message, kind: "warning" };
  }
}
