/**
 * How Reef's extension in an agent finds Reef, and asks it.
 *
 * What is installed lies in `reef.json` in the agent's own folder. The token is read for each question, so a renewed one needs no new
 * installation.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/** The agent's own folder; this file lies two folders below it. */
const FOLDER = join(dirname(fileURLToPath(import.meta.url)), "..", "..");
/** What a run of the agent may wait for Reef, in milliseconds. */
export const BRIEF_MS = 300;
/** What a person who asked for something may wait for it. */
export const PATIENT_MS = 10_000;

/** As `reef install` wrote it. */
export interface Installed {
  /** What Reef calls the agent. */
  agent: string;
  /** Of the daemon, without `/v1`. */
  base_url: string;
  scenario: string;
  token_path: string;
  /** The release whose rules, skills, prompts and extensions lie in the agent's folder; empty before the first one. */
  release_id: string;
  model_id: string;
  context_tokens: number;
  /** The command line of Reef, to which arguments are added. */
  command: string[];
  /** Reef's home. */
  home: string;
}

export type Answer = Record<string, unknown>;

/** What went wrong, as a sentence for the user. `status` is 0 where Reef did not answer at all. */
export class Trouble extends Error {
  readonly status: number;

  constructor(message: string, status: number) {
    super(message);
    this.status = status;
  }
}

/** Throws where the file is missing or damaged. */
export function readInstalled(): Installed {
  return JSON.parse(readFileSync(join(FOLDER, "reef.json"), "utf8")) as Installed;
}

/** The release that the user wants to hear no more of; empty: none. */
export function readSkipped(): string {
  try {
    const text: unknown = JSON.parse(readFileSync(skippedPath(), "utf8"));
    return typeof text === "string" ? text : "";
  } catch {
    return "";
  }
}

export function writeSkipped(release: string): void {
  writeFileSync(skippedPath(), `${JSON.stringify(release)}\n`, { mode: 0o600 });
}

function skippedPath(): string {
  return join(FOLDER, "reef-skipped.json");
}

/** One question. Throws `Trouble` where Reef does not answer within `wait` milliseconds, or refuses. */
export async function ask(installed: Installed, method: "GET" | "POST", path: string, wait: number, body?: Answer): Promise<Answer> {
  let response: Response;
  try {
    response = await fetch(installed.base_url + path, {
      method,
      headers: {
        authorization: `Bearer ${readFileSync(installed.token_path, "utf8").trim()}`,
        "content-type": "application/json",
        "x-reef-scenario": installed.scenario,
      },
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: AbortSignal.timeout(wait),
    });
  } catch {
    throw new Trouble(`Reef does not answer at ${installed.base_url}. Start it: reef up`, 0);
  }
  let answer: Answer;
  try {
    answer = object(await response.json());
  } catch {
    throw new Trouble(`Reef's answer at ${installed.base_url} cannot be read. Look at: reef logs`, 0);
  }
  if (response.ok) return answer;
  const error = object(answer.error);
  throw new Trouble([text(error.message) || `Reef refused it (${response.status}).`, text(error.hint)].filter(Boolean).join(" "), response.status);
}

export function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

export function list(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

export function object(value: unknown): Answer {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Answer) : {};
}

/** Recorded text is untrusted: nothing in it may steer the terminal. */
export function printable(value: string): string {
  return value.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g, "�");
}
