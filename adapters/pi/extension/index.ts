/**
 * Reef inside pi: says what changed since the installed release, takes feedback and updates, and tells Reef which session, release and
 * folder a request belongs to. Reef being down costs one line.
 */
import type { ExtensionAPI, ExtensionContext } from "@earendil-works/pi-coding-agent";
import { lookUp } from "./changes.ts";
import { registerCommands } from "./commands.ts";
import { type Installed, readInstalled } from "./reef.ts";
import { tagRequests } from "./requests.ts";
import { reportRuns } from "./runs.ts";
import { showStatus, spokesman, tell } from "./telling.ts";
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
