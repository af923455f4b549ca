/** What the user can type: feedback on the last answer, and questions about what Reef serves. */
import type { ExtensionAPI, ExtensionCommandContext } from "@earendil-works/pi-coding-agent";
import { type Answer, ask, type Installed, list, object, PATIENT_MS, text, writeSkipped } from "./reef.ts";
import { lastReceipt } from "./requests.ts";
import { isNew, showStatus, statusLine, step, tell } from "./telling.ts";

const MOST_LINES = 40;

/** Runs `work` and tells the user what went wrong in it. */
export async function guarded(ctx: ExtensionCommandContext, work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    tell(ctx, error instanceof Error ? error.message : String(error), "error");
  }
}

export function changesPath(installed: Installed): string {
  return `/reef/harness/changes?since=${encodeURIComponent(installed.release_id)}`;
}

export function registerCommands(pi: ExtensionAPI, installed: Installed): void {
  const scenario = `/reef/scenarios/${encodeURIComponent(installed.scenario)}`;
  const get = (path: string): Promise<Answer> => ask(installed, "GET", path, PATIENT_MS);
  const command = (name: string, description: string, work: (words: string, ctx: ExtensionCommandContext) => Promise<void>): void =>
    pi.registerCommand(name, { description, handler: (words, ctx) => guarded(ctx, () => work(words.trim(), ctx)) });

  const judge = async (score: number, note: string, ctx: ExtensionCommandContext): Promise<void> => {
    const receipt = lastReceipt(ctx);
    if (!receipt) return tell(ctx, "There is no answer of Reef's in this session yet.", "warning");
    const metadata = { client: "pi", release: installed.release_id };
    await ask(installed, "POST", "/reef/report", PATIENT_MS, { references: [receipt], score, metadata, ...(note ? { feedback: note } : {}) });
    tell(ctx, `Reef has it: the last answer is ${score > 0 ? "good" : "bad"}${note ? `, ${note}` : ""}.`);
  };
  command("good", "Tell Reef that the last answer is good: /good [note]", (note, ctx) => judge(1, note, ctx));
  command("bad", "Tell Reef that the last answer is bad, and why: /bad [note]", (note, ctx) => judge(-1, note, ctx));

  command("reef-status", "What Reef serves, and what is installed here", async (_words, ctx) => {
    const [changes, status] = await Promise.all([get(changesPath(installed)), get("/reef/status")]);
    const here = object(list(status.scenarios).find((one) => object(one).name === installed.scenario));
    const held = list(changes.held).map(text);
    const lines = [
      `Reef at ${installed.base_url}, scenario ${installed.scenario}`,
      `model      ${text(changes.model)}, ${String(changes.context_tokens)} tokens`,
      `installed  ${installed.release_id || "nothing yet"}`,
      `serves     ${text(changes.head)}${isNew(installed, changes) ? `: ${text(changes.line)}; /reef-update` : ""}`,
      `sessions   ${String(here.sessions ?? 0)}, with ${String(here.reports ?? 0)} reports`,
      ...(held.length > 0 ? [`held       ${held.join(", ")} (a person decides: reef releases -s ${installed.scenario})`] : []),
    ];
    showStatus(ctx, statusLine(installed, changes));
    tell(ctx, lines.join("\n"));
  });

  command("reef-diff", "What /reef-update would change, line by line", async (_words, ctx) => {
    const changes = await get(changesPath(installed));
    if (!isNew(installed, changes)) return tell(ctx, `${installed.release_id || text(changes.head)} is installed and serves: nothing differs.`);
    if (!installed.release_id) return tell(ctx, step(installed, changes));
    const names = `${encodeURIComponent(installed.release_id)}/diff/${encodeURIComponent(text(changes.head))}`;
    const lines = list((await get(`${scenario}/releases/${names}`)).files).flatMap(fileLines);
    const rest = lines.length - MOST_LINES;
    const more = rest > 0 ? [`… ${rest} more lines: reef diff ${installed.release_id} ${text(changes.head)} -s ${installed.scenario}`] : [];
    tell(ctx, [step(installed, changes), ...lines.slice(0, MOST_LINES), ...more].join("\n"));
  });

  command("reef-skip", "Hear no more of the release that is new", async (_words, ctx) => {
    const changes = await get(changesPath(installed));
    if (!isNew(installed, changes)) return tell(ctx, "There is nothing new to skip.");
    writeSkipped(text(changes.head));
    showStatus(ctx, statusLine(installed, changes));
    tell(ctx, `${text(changes.head)} is skipped; the next release is told again. /reef-update takes it all the same.`);
  });

  command("reef-why", "Which release and sessions brought a line: /reef-why words of a rule", async (words, ctx) => {
    if (!words) return tell(ctx, "Name the words of a rule, or lora: /reef-why run the tests", "warning");
    const found = await get(`${scenario}/why?text=${encodeURIComponent(words)}`);
    const events = list(found.releases).map(object).flatMap(eventLines);
    const near = list(found.nearest).map((one) => `  ${text(object(one).path)}: ${text(object(one).line)} (${text(object(one).release_id)})`);
    tell(ctx, (events.length > 0 ? events : ["No release has such a line.", ...(near.length > 0 ? ["The nearest:", ...near] : [])]).slice(0, MOST_LINES).join("\n"));
  });
}

/** `AGENTS.md`, and below it what goes and what comes. */
function fileLines(value: unknown): string[] {
  const file = object(value);
  const signs: Record<string, string> = { removed: "−", added: "+" };
  const lines = list(file.hunks)
    .flatMap((hunk) => list(object(hunk).lines))
    .map(object)
    .filter((line) => text(line.kind) in signs)
    .map((line) => `  ${signs[text(line.kind)]} ${list(line.segments).map((segment) => text(list(segment)[0])).join("")}`);
  return [text(file.path), ...lines];
}

function eventLines(event: Answer): string[] {
  const sessions = list(event.sessions).map(object);
  const place = event.number ? `:${String(event.number)}` : "";
  return [
    `${text(event.release_id)} ${text(event.event)} ${text(event.path)}${place} ${text(event.line)}`.trimEnd(),
    ...sessions.slice(0, 5).map((session) => `  from ${text(session.id)} ${text(session.title)}`.trimEnd()),
    ...(sessions.length > 5 ? [`  and ${sessions.length - 5} more sessions`] : []),
  ];
}
