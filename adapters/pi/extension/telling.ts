/** What the user is told: a notice and a status line, never a window that takes keys. Without a terminal a notice is a line on stderr. */
import type { ExtensionContext } from "@earendil-works/pi-coding-agent";
import { printable } from "./reef.ts";

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
