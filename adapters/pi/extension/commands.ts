/** What the user can type: feedback on the last answer, and questions about what Reef serves. */
import type { ExtensionAPI, ExtensionCommandContext } from "@earendil-works/pi-coding-agent";
import { diffLines, judge, NO_ANSWER, skip, statusLines, whyLines } from "./answers.ts";
import { statusLine } from "./changes.ts";
import type { Installed } from "./reef.ts";
import { lastReceipt } from "./requests.ts";
import { showStatus, tell } from "./telling.ts";

/** Runs `work` and tells the user what went wrong in it. */
export async function guarded(ctx: ExtensionCommandContext, work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    tell(ctx, error instanceof Error ? error.message : String(error), "error");
  }
}

export function registerCommands(pi: ExtensionAPI, installed: Installed): void {
  const command = (name: string, description: string, work: (words: string, ctx: ExtensionCommandContext) => Promise<void>): void =>
    pi.registerCommand(name, { description, handler: (words, ctx) => guarded(ctx, () => work(words.trim(), ctx)) });

  const judged = async (score: 1 | -1, note: string, ctx: ExtensionCommandContext): Promise<void> => {
    const receipt = lastReceipt(ctx);
    if (!receipt) return tell(ctx, NO_ANSWER, "warning");
    tell(ctx, await judge(installed, ctx.sessionManager.getSessionId(), receipt, score, note));
  };
  command("good", "Tell Reef that the last answer is good: /good [note]", (note, ctx) => judged(1, note, ctx));
  command("bad", "Tell Reef that the last answer is bad, and why: /bad [note]", (note, ctx) => judged(-1, note, ctx));

  command("reef-status", "What Reef serves, and what is installed here", async (_words, ctx) => {
    const { changes, lines } = await statusLines(installed);
    showStatus(ctx, statusLine(installed, changes));
    tell(ctx, lines.join("\n"));
  });

  command("reef-diff", "What /reef-update would change, line by line", async (_words, ctx) => {
    tell(ctx, (await diffLines(installed)).join("\n"));
  });

  command("reef-skip", "Hear no more of the release that is new", async (_words, ctx) => {
    const { changes, line } = await skip(installed);
    showStatus(ctx, statusLine(installed, changes));
    tell(ctx, line);
  });

  command("reef-why", "Which release and sessions brought a line: /reef-why words of a rule", async (words, ctx) => {
    if (!words) return tell(ctx, "Name the words of a rule, or lora: /reef-why run the tests", "warning");
    tell(ctx, (await whyLines(installed, words)).join("\n"));
  });
}
