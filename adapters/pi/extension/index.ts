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
    let message = "";
    let kind: "info" | "warning" = "info";
    let status = installed.release_id ? `Reef ${installed.release_id}` : "Reef";
    try {
      const changes = await ask(installed, "GET", changesPath(installed), BRIEF_MS);
      message = notice(ctx, installed, changes);
      kind = fits(installed, changes) ? "info" : "warning";
      status = statusLine(installed, changes);
    } catch (error) {
      if (!(error instanceof Trouble)) throw error;
      kind = "warning";
      const early = error.status === 404 && !installed.release_id; // the scenario begins with its first request
      if (!early) message = error.message;
      if (error.status === 0) status = "Reef is down";
    }
    try {
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
