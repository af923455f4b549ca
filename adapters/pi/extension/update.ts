/**
 * `/reef-update`: lays down the files of the release that serves, and lets pi read them anew.
 *
 * The same program that installed pi writes them, so hashes, hand edits and an interruption are cared for there. pi reads rules, skills,
 * prompt templates, settings and extensions again in the session that is under way; its next message has them.
 */
import type { ExtensionAPI } from "@earendil-works/pi-coding-agent";
import { changesPath, guarded } from "./commands.ts";
import { type Answer, ask, BRIEF_MS, type Installed, readInstalled } from "./reef.ts";
import { spokesman, step, tell } from "./telling.ts";

const LONGEST_MS = 120_000;

export function registerUpdate(pi: ExtensionAPI, installed: Installed): void {
  pi.registerCommand("reef-update", {
    description: "Bring the rules, skills, prompts and extensions that Reef serves into this session",
    handler: (_words, ctx) =>
      guarded(ctx, async () => {
        if (!ctx.isIdle()) tell(ctx, "Reef updates once this run is over.");
        await ctx.waitForIdle();
        const [program, ...given] = installed.command;
        const home = `REEF_HOME=${installed.home}`;
        const done = await pi.exec("env", [home, program ?? "reef", ...given, "update", "pi"], { timeout: LONGEST_MS });
        if (done.code !== 0) throw new Error(done.stderr.trim().replace(/^Error: /, "") || `The update ended with code ${done.code}.`);
        const now = readInstalled();
        if (now.release_id === installed.release_id) return tell(ctx, `${now.release_id || "Nothing newer"} is installed: nothing changes.`);
        let changes: Answer = {};
        try {
          changes = await ask(installed, "GET", changesPath(installed), BRIEF_MS);
        } catch {
          // It is laid down all the same.
        }
        const line = changes.head === now.release_id ? step(installed, changes) : `Reef ${installed.release_id} → ${now.release_id}`;
        await leaveOldWeights(installed, ctx.sessionManager.getSessionId());
        await ctx.reload();
        spokesman.tell?.(`${line}. It holds from your next message on.`);
      }),
  });
}

/** A session keeps the release that it began with, LoRA included, until its user updates. */
async function leaveOldWeights(installed: Installed, session: string): Promise<void> {
  const path = `/reef/scenarios/${encodeURIComponent(installed.scenario)}/sessions/${encodeURIComponent(session)}/update`;
  try {
    await ask(installed, "POST", path, BRIEF_MS, {});
  } catch {
    // It has no answer yet, or has been idle: then its next request takes what serves anyway.
  }
}
