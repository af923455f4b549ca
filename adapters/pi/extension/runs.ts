/** Reports how each run of the agent ended. One that the user stopped is tied to its last answer; the others are told for the record. */
import type { ExtensionAPI } from "@earendil-works/pi-coding-agent";
import { report } from "./receipts.ts";
import { ask, BRIEF_MS, type Installed } from "./reef.ts";
import { receiptOf } from "./requests.ts";

const MOST_RECEIPTS = 200;

interface Run {
  startedAt: number;
  turns: number;
  tools: number;
  receipts: string[];
  stopReason: string;
}

export function reportRuns(pi: ExtensionAPI, installed: Installed): void {
  let run: Run | undefined;

  pi.on("agent_start", () => {
    run ??= { startedAt: Date.now(), turns: 0, tools: 0, receipts: [], stopReason: "" }; // a retry goes on with the same run
  });

  pi.on("turn_end", (event) => {
    if (run === undefined || event.message.role !== "assistant") return;
    run.turns += 1;
    run.tools += event.toolResults.length;
    run.stopReason = event.message.stopReason;
    const receipt = receiptOf(event.message);
    if (receipt && run.receipts.length < MOST_RECEIPTS) run.receipts.push(receipt);
  });

  pi.on("agent_settled", async (event, ctx) => {
    const ended = run;
    run = undefined;
    if (ended === undefined || ended.receipts.length === 0) return; // no answer of Reef's in it
    const outcome = event.aborted ? "aborted" : ended.stopReason === "error" ? "failed" : "completed";
    const session = ctx.sessionManager.getSessionId();
    const body = {
      metadata: {
        outcome,
        client: "pi",
        agent_session: session,
        release: installed.release_id,
        cwd: ctx.cwd,
        mode: ctx.mode,
        turns: ended.turns,
        tools: ended.tools,
        seconds: (Date.now() - ended.startedAt) / 1000,
        receipts: ended.receipts,
      },
    };
    try {
      const last = outcome === "aborted" ? ended.receipts.at(-1) : undefined;
      if (last === undefined) await ask(installed, "POST", "/reef/report", BRIEF_MS, { ...body, references: [] });
      else await report(installed, session, last, body, BRIEF_MS);
    } catch {
      // The answers are recorded; how the run ended is only a help.
    }
  });
}
