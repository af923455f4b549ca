/** Reports how each run of the agent ended. One that the user stopped is tied to its last answer; the others are told for the record. */
import type { Event } from "@opencode-ai/sdk";
import { lastReceipt } from "./receipts.ts";
import { ask, type Installed, PATIENT_MS } from "./reef.ts";

/** What the end of opencode waits for the last report. */
const END_MS = 1000;

interface Run {
  startedAt: number;
  turns: Set<string>;
  tools: Set<string>;
  outcome: "completed" | "aborted" | "failed";
  /** Whether Reef was asked in it at all. */
  asked: boolean;
}

export class Runs {
  readonly #installed: Installed;
  readonly #directory: string;
  readonly #runs = new Map<string, Run>();
  /** Sessions of subagents: a part of another one's run. */
  readonly #parts = new Set<string>();
  readonly #telling = new Set<Promise<void>>();

  constructor(installed: Installed, directory: string) {
    this.#installed = installed;
    this.#directory = directory;
  }

  /** A request of the session goes to Reef now. */
  asked(session: string): void {
    this.#run(session).asked = true;
  }

  take(event: Event): void {
    if (event.type === "session.created" || event.type === "session.updated") {
      if (event.properties.info.parentID) this.#parts.add(event.properties.info.id);
    } else if (event.type === "message.updated") {
      const info = event.properties.info;
      if (info.role !== "assistant" || !info.time.completed) return;
      const run = this.#run(info.sessionID);
      run.turns.add(info.id);
      run.outcome = outcome(info.error);
    } else if (event.type === "message.part.updated") {
      const part = event.properties.part;
      if (part.type === "tool" && part.state.status === "completed") this.#run(part.sessionID).tools.add(part.callID);
    } else if (event.type === "session.error" && event.properties.sessionID) {
      this.#run(event.properties.sessionID).outcome = outcome(event.properties.error);
    } else if (event.type === "session.idle") {
      const session = event.properties.sessionID;
      const run = this.#runs.get(session);
      this.#runs.delete(session); // a run that was cut off is idle twice, and its message comes between
      if (run?.asked && !this.#parts.has(session)) this.#tell(session, run);
    }
  }

  /** Waits a moment for the reports that are on their way. */
  async told(): Promise<void> {
    await Promise.race([Promise.all(this.#telling), new Promise((resolve) => setTimeout(resolve, END_MS).unref())]);
  }

  #run(session: string): Run {
    const known = this.#runs.get(session);
    if (known) return known;
    const run: Run = { startedAt: Date.now(), turns: new Set(), tools: new Set(), outcome: "completed", asked: false };
    this.#runs.set(session, run);
    return run;
  }

  #tell(session: string, run: Run): void {
    const telling = this.#report(session, run)
      .catch(() => undefined) // The answers are recorded; how the run ended is only a help.
      .finally(() => this.#telling.delete(telling));
    this.#telling.add(telling);
  }

  async #report(session: string, run: Run): Promise<void> {
    const receipt = run.outcome === "aborted" ? await lastReceipt(this.#installed, session) : "";
    const metadata = {
      outcome: run.outcome,
      client: this.#installed.agent,
      agent_session: session,
      release: this.#installed.release_id,
      cwd: this.#directory,
      turns: run.turns.size,
      tools: run.tools.size,
      seconds: (Date.now() - run.startedAt) / 1000,
    };
    await ask(this.#installed, "POST", "/reef/report", PATIENT_MS, { references: receipt ? [receipt] : [], metadata });
  }
}

function outcome(error: { name: string } | undefined): Run["outcome"] {
  if (error === undefined) return "completed";
  return error.name === "MessageAbortedError" ? "aborted" : "failed";
}
