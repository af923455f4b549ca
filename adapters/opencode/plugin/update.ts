/**
 * `/reef-update`: lays down the files of the release that serves, and lets opencode read them anew.
 *
 * The same program that installed opencode writes them, so hashes, hand edits and an interruption are cared for there. opencode's server then
 * forgets what it has read: the next message has the rules, skills, commands and settings. Plugins alone are read when opencode starts.
 */
import { execFile } from "node:child_process";
import type { TuiPluginApi } from "@opencode-ai/plugin/tui";
import { broughtLine, leaveOldWeights } from "./answers.ts";
import { type Installed, readInstalled } from "./reef.ts";

const LONGEST_MS = 120_000;
const LOOK_MS = 300;

/** What it brought, as a line for the user. */
export async function update(api: TuiPluginApi, installed: Installed, tell: (message: string) => void): Promise<string> {
  if (await busy(api)) tell("Reef updates once this run is over.");
  while (await busy(api)) await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  await run(installed);
  const now = readInstalled();
  if (now.release_id === installed.release_id) return `${now.release_id || "Nothing newer"} is installed: nothing changes.`;
  const line = await broughtLine(installed, now);
  const route = api.route.current;
  if (route.name === "session" && typeof route.params?.sessionID === "string") await leaveOldWeights(installed, route.params.sessionID);
  await api.client.instance.dispose();
  return `${line}. It holds from your next message on.`;
}

/** Whether a session of this server is under way: forgetting would cut it off. */
async function busy(api: TuiPluginApi): Promise<boolean> {
  const { data } = await api.client.session.status();
  return Object.values(data ?? {}).some((one) => one.type !== "idle");
}

async function run(installed: Installed): Promise<void> {
  const [program = "reef", ...given] = installed.command;
  const options = { env: { ...process.env, REEF_HOME: installed.home }, timeout: LONGEST_MS };
  await new Promise<void>((resolve, reject) => {
    execFile(program, [...given, "update", installed.agent], options, (error, _out, said) => {
      if (error) reject(new Error(said.trim().replace(/^Error: /, "") || `The update failed: ${error.message}`));
      else resolve();
    });
  });
}
