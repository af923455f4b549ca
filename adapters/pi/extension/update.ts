/**
 * `/reef-update`: lays down the files of the release that serves, and lets pi read them anew.
 *
 * The same program that installed pi writes them, so hashes, hand edits and an interruption are cared for there. pi reads rules, skills,
 * prompt templates, settings and extensions again in the session that is under way; its next message has them.
 */
import type { ExtensionAPI } from "@earendil-works/pi-coding-agent";
import { broughtLine, leaveOldWeights } from "./answers.ts";
import { guarded } from "./commands.ts";
import { type Installed, readInstalled } from "./reef.ts";
import { spokesman, tell } from "./telling.ts";

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
        const line = await broughtLine(installed, now);
        await leaveOldWeights(installed, ctx.sessionManager.getSessionId());
        await ctx.reload();
        spokesman.tell?.(`${line}. It holds from your next message on.`);
      }),
  });
}
