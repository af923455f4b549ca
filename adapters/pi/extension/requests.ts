/** What each request to Reef carries, and which answers of it the session holds. */
import type { ExtensionAPI, ExtensionContext } from "@earendil-works/pi-coding-agent";
import { headerText } from "./answers.ts";
import type { Installed } from "./reef.ts";

/** The name that `models.json` gives to Reef. */
const PROVIDER = "reef";

/** Adds session, release and working directory to every request to Reef, compaction's included, and to no other provider's. */
export function tagRequests(pi: ExtensionAPI, installed: Installed): void {
  pi.on("before_provider_headers", (event, ctx) => {
    if (event.headers["x-reef-scenario"] === undefined) return; // set in models.json, for Reef alone
    event.headers["x-reef-tag-session"] = ctx.sessionManager.getSessionId();
    event.headers["x-reef-tag-cwd"] = headerText(ctx.cwd);
    if (installed.release_id) event.headers["x-reef-tag-release"] = installed.release_id;
  });
}

/** The receipt of the session's last answer from Reef; empty: there is none. */
export function lastReceipt(ctx: ExtensionContext): string {
  const entries = ctx.sessionManager.getBranch();
  for (let at = entries.length - 1; at >= 0; at--) {
    const entry = entries[at];
    if (entry?.type !== "message") continue;
    const receipt = receiptOf(entry.message);
    if (receipt) return receipt;
  }
  return "";
}

/** Reef's response ids name the record. Empty: the message is no answer of Reef's, or was cut off before it had an id. */
export function receiptOf(message: { role: string; provider?: string; responseId?: string }): string {
  if (message.role !== "assistant" || message.provider !== PROVIDER || !message.responseId) return "";
  return `rec_${message.responseId.replace(/^(?:chatcmpl-|resp_|msg_)/, "")}`;
}
