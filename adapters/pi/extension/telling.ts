/** What the user is told: a notice and a status line, never a window that takes keys. Without a terminal a notice is a line on stderr. */
import type { ExtensionContext } from "@earendil-works/pi-coding-agent";
import { type Answer, type Installed, printable, readSkipped, text } from "./reef.ts";

const KEY = "reef";

export function tell(ctx: ExtensionContext, message: string, kind: "info" | "warning" | "error" = "info"): void {
  if (ctx.hasUI) ctx.ui.notify(printable(message), kind);
  else console.error(printable(message));
}

/**
 * How the session that is open now tells something. pi loads this module anew at a reload, and what the old one holds of the session is
 * dead then; so that it can still say what it did, both share this object.
 */
export const spokesman: { tell?: (message: string) => void } = ((globalThis as Record<symbol, unknown>)[Symbol.for("reef.spokesman")] ??= {}) as object;

export function showStatus(ctx: ExtensionContext, message: string): void {
  if (ctx.hasUI) ctx.ui.setStatus(KEY, printable(message));
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

/** Whether pi is set up for the model that serves, and for its window. */
export function fits(installed: Installed, changes: Answer): boolean {
  return changes.model === installed.model_id && changes.context_tokens === installed.context_tokens;
}

/** The notice; empty where there is nothing to say. */
export function notice(installed: Installed, changes: Answer, hasUI: boolean): string {
  const lines: string[] = [];
  if (isNew(installed, changes) && readSkipped() !== text(changes.head)) {
    const next = hasUI ? "/reef-update, /reef-diff, /reef-skip" : "to take it: reef update pi";
    lines.push(`${step(installed, changes)}; ${next}`);
  }
  if (!fits(installed, changes)) {
    const served = `${text(changes.model)} with ${String(changes.context_tokens)} tokens`;
    lines.push(`Reef serves ${served} now, and pi is set up for ${installed.model_id} with ${installed.context_tokens}. Type: reef update pi, then start pi again.`);
  }
  return lines.join("\n");
}

/** The status line for what is installed and what is new. */
export function statusLine(installed: Installed, changes: Answer): string {
  const here = installed.release_id ? `Reef ${installed.release_id}` : "Reef";
  if (!isNew(installed, changes)) return here;
  const head = text(changes.head);
  return readSkipped() === head ? `${here} (${head} skipped)` : `${here} → ${head} /reef-update`;
}
