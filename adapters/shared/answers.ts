/** What a user asks of Reef and is told, whatever the agent's own way to show it. */
import { changesPath, isNew, step } from "./changes.ts";
import { report } from "./receipts.ts";
import { type Answer, ask, BRIEF_MS, type Installed, list, object, PATIENT_MS, text, writeSkipped } from "./reef.ts";

export const MOST_LINES = 40;

/** `/good [note]` and `/bad [note]`: stores what the user says of one answer. */
export async function judge(installed: Installed, session: string, receipt: string, score: 1 | -1, note: string): Promise<string> {
  const metadata = { client: installed.agent, release: installed.release_id };
  await report(installed, session, receipt, { score, metadata, ...(note ? { feedback: note } : {}) }, PATIENT_MS);
  return `Reef has it: the last answer is ${score > 0 ? "good" : "bad"}${note ? `, ${note}` : ""}.`;
}

export const NO_ANSWER = "There is no answer of Reef's in this session yet.";

/** `/reef-status`: what serves and what is installed here. */
export async function statusLines(installed: Installed): Promise<{ changes: Answer; lines: string[] }> {
  const paths = [changesPath(installed), "/reef/status"];
  const [changes = {}, status = {}] = await Promise.all(paths.map((path) => ask(installed, "GET", path, PATIENT_MS)));
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
  return { changes, lines };
}

/** `/reef-diff`: what an update would change, line by line. */
export async function diffLines(installed: Installed): Promise<string[]> {
  const changes = await ask(installed, "GET", changesPath(installed), PATIENT_MS);
  if (!isNew(installed, changes)) return [`${installed.release_id || text(changes.head)} is installed and serves: nothing differs.`];
  const head = text(changes.head);
  let lines: string[];
  let whole: string;
  if (installed.release_id) {
    const names = `${encodeURIComponent(installed.release_id)}/diff/${encodeURIComponent(head)}`;
    const path = `/reef/scenarios/${encodeURIComponent(installed.scenario)}/releases/${names}`;
    lines = list((await ask(installed, "GET", path, PATIENT_MS)).files).flatMap(fileLines);
    whole = `reef diff ${installed.release_id} ${head} -s ${installed.scenario}`;
  } else {
    // all that there is would come
    const files = object((await ask(installed, "GET", `/reef/harness?release_id=${encodeURIComponent(head)}`, PATIENT_MS)).files);
    lines = Object.keys(files)
      .sort()
      .flatMap((name) => [name, ...text(files[name]).replace(/\n$/, "").split("\n").map((line) => `  + ${line}`)]);
    whole = `reef show ${head} --files -s ${installed.scenario}`;
  }
  const rest = lines.length - MOST_LINES;
  const more = rest > 0 ? [`… ${rest} more lines: ${whole}`] : [];
  return [step(installed, changes), ...lines.slice(0, MOST_LINES), ...more];
}

/** `/reef-skip`: hears no more of the release that is new. */
export async function skip(installed: Installed): Promise<{ changes: Answer; line: string }> {
  const changes = await ask(installed, "GET", changesPath(installed), PATIENT_MS);
  if (!isNew(installed, changes)) return { changes, line: "There is nothing new to skip." };
  writeSkipped(text(changes.head));
  return { changes, line: `${text(changes.head)} is skipped; the next release is told again. /reef-update takes it all the same.` };
}

/** `/reef-why words`: which release and sessions brought a line. */
export async function whyLines(installed: Installed, words: string): Promise<string[]> {
  const path = `/reef/scenarios/${encodeURIComponent(installed.scenario)}/why?text=${encodeURIComponent(words)}`;
  const found = await ask(installed, "GET", path, PATIENT_MS);
  const events = list(found.releases).map(object).flatMap(eventLines);
  if (events.length > 0) return events.slice(0, MOST_LINES);
  const near = list(found.nearest).map((one) => `  ${text(object(one).path)}: ${text(object(one).line)} (${text(object(one).release_id)})`);
  return ["No release has such a line.", ...(near.length > 0 ? ["The nearest:", ...near] : [])].slice(0, MOST_LINES);
}

/** A session keeps the release that it began with, LoRA included, until its user updates. */
export async function leaveOldWeights(installed: Installed, session: string): Promise<void> {
  const path = `/reef/scenarios/${encodeURIComponent(installed.scenario)}/sessions/${encodeURIComponent(session)}/update`;
  try {
    await ask(installed, "POST", path, BRIEF_MS, {});
  } catch {
    // It has no answer yet, or has been idle: then its next request takes what serves anyway.
  }
}

/** What an update brought, as one line: `before` was installed, `now` is. */
export async function broughtLine(before: Installed, now: Installed): Promise<string> {
  let changes: Answer = {};
  try {
    changes = await ask(before, "GET", changesPath(before), BRIEF_MS);
  } catch {
    // It is laid down all the same.
  }
  return changes.head === now.release_id ? step(before, changes) : step(before, { head: now.release_id });
}

/** A header holds ASCII alone: anything else, and the percent sign, is percent-encoded as UTF-8. */
export function headerText(path: string): string {
  return path.toWellFormed().replace(/[^\x20-\x7e]|%/gu, (character) => encodeURIComponent(character));
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
