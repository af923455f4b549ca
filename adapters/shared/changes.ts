/** What is new since the installed release, and how it is said. */
import { type Answer, ask, BRIEF_MS, type Installed, readSkipped, text, Trouble } from "./reef.ts";

/** What the user is shown: a status line, and a message that may be empty. */
export interface News {
  status: string;
  message: string;
  kind: "info" | "warning";
}

export function changesPath(installed: Installed): string {
  return `/reef/harness/changes?since=${encodeURIComponent(installed.release_id)}`;
}

/** Asks once, and briefly. `commands`: whether the user can type Reef's commands here. */
export async function lookUp(installed: Installed, commands: boolean): Promise<News> {
  try {
    const changes = await ask(installed, "GET", changesPath(installed), BRIEF_MS);
    const kind = fits(installed, changes) ? "info" : "warning";
    return { status: statusLine(installed, changes), message: notice(installed, changes, commands), kind };
  } catch (error) {
    if (!(error instanceof Trouble)) throw error;
    const early = error.status === 404 && !installed.release_id; // the scenario begins with its first request
    return { status: error.status === 0 ? "Reef is down" : here(installed), message: early ? "" : error.message, kind: "warning" };
  }
}

/** `Reef r12 → r14: +2 rules −1 skill`, from the answer of `/reef/harness/changes`. */
export function step(installed: Installed, changes: Answer): string {
  const line = text(changes.line);
  const releases = installed.release_id ? `${installed.release_id} → ${text(changes.head)}` : text(changes.head);
  return `Reef ${releases}${line ? `: ${line}` : ""}`;
}

/** Whether there is something that is not installed yet: another release, or the first one with anything in it. */
export function isNew(installed: Installed, changes: Answer): boolean {
  return installed.release_id ? text(changes.head) !== installed.release_id : changes.harness_changed === true;
}

/** Whether the agent is set up for the model that serves, and for its window. */
export function fits(installed: Installed, changes: Answer): boolean {
  return changes.model === installed.model_id && changes.context_tokens === installed.context_tokens;
}

/** The notice; empty where there is nothing to say. */
export function notice(installed: Installed, changes: Answer, commands: boolean): string {
  const lines: string[] = [];
  const agent = installed.agent;
  if (isNew(installed, changes) && readSkipped() !== text(changes.head)) {
    const next = commands ? "/reef-update, /reef-diff, /reef-skip" : `to take it: reef update ${agent}`;
    lines.push(`${step(installed, changes)}; ${next}`);
  }
  if (!fits(installed, changes)) {
    const served = `${text(changes.model)} with ${String(changes.context_tokens)} tokens`;
    const told = `${installed.model_id} with ${installed.context_tokens}`;
    lines.push(`Reef serves ${served} now, and ${agent} is set up for ${told}. Type: reef update ${agent}, then start ${agent} again.`);
  }
  return lines.join("\n");
}

/** The status line for what is installed and what is new. */
export function statusLine(installed: Installed, changes: Answer): string {
  if (!isNew(installed, changes)) return here(installed);
  const head = text(changes.head);
  return readSkipped() === head ? `${here(installed)} (${head} skipped)` : `${here(installed)} → ${head} /reef-update`;
}

function here(installed: Installed): string {
  return installed.release_id ? `Reef ${installed.release_id}` : "Reef";
}
