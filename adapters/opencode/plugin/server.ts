/**
 * Reef inside opencode's server: tells Reef which release and folder a request belongs to and how runs end, takes feedback, and in
 * `opencode run` says what is new. What the terminal shows is in `tui.tsx`.
 */
import type { Hooks, PluginInput } from "@opencode-ai/plugin";
import { headerText, judge, NO_ANSWER, whyLines } from "./answers.ts";
import { lookUp } from "./changes.ts";
import { giveBack } from "./environment.ts";
import { lastReceipt } from "./receipts.ts";
import { type Installed, printable, readInstalled } from "./reef.ts";
import { Runs } from "./runs.ts";

/** The name that `opencode.json` gives to Reef. */
const PROVIDER = "reef";
const LONG_MS = 20_000;
const COMMANDS: Record<string, string> = {
  good: "Tell Reef that the last answer is good: /good [note]",
  bad: "Tell Reef that the last answer is bad, and why: /bad [note]",
  "reef-why": "Which release and sessions brought a line: /reef-why words of a rule",
};

async function server({ client, directory }: PluginInput): Promise<Hooks> {
  giveBack();
  const once = process.argv[2] === "run";
  const tell = async (message: string, variant: "info" | "warning" | "error", duration = 5000): Promise<void> => {
    if (once) console.error(printable(message));
    else await client.tui.showToast({ body: { message: printable(message), variant, duration } });
  };
  let installed: Installed;
  try {
    installed = readInstalled();
  } catch {
    if (once) void tell("Reef's settings in opencode's folder are damaged. Type: reef install opencode", "error");
    return {};
  }
  // Not awaited: opencode starts at once, and the line comes when Reef has answered.
  if (once) void lookUp(installed, false).then(({ message, kind }) => (message ? tell(message, kind) : undefined));
  const runs = new Runs(installed, directory);

  return {
    config: async (config) => {
      const own = Object.entries(COMMANDS).map(([name, description]) => [name, { description, template: "$ARGUMENTS" }] as const);
      config.command = { ...config.command, ...Object.fromEntries(own) };
    },

    "chat.headers": async ({ sessionID, model }, { headers }) => {
      if (model.providerID !== PROVIDER) return;
      headers["x-reef-tag-cwd"] = headerText(directory);
      if (installed.release_id) headers["x-reef-tag-release"] = installed.release_id;
      const session = process.env.REEF_SESSION; // of a task that Reef started
      if (session) headers["x-reef-tag-session"] = session;
      runs.asked(sessionID);
    },

    // opencode would hand the command to the model now. That a command has done its work by itself can be said by an error alone; the
    // terminal shows none.
    "command.execute.before": async ({ command, sessionID, arguments: words }) => {
      if (!(command in COMMANDS)) return;
      const { message, failed } = await answer(installed, command, sessionID, words.trim());
      await tell(message, failed ? "warning" : "info", command === "reef-why" ? LONG_MS : undefined);
      throw new Error(message);
    },

    event: async ({ event }) => runs.take(event),
    dispose: async () => runs.told(),
  };
}

async function answer(installed: Installed, command: string, session: string, words: string): Promise<{ message: string; failed: boolean }> {
  try {
    if (command === "reef-why") {
      if (!words) return { message: "Name the words of a rule, or lora: /reef-why run the tests", failed: true };
      return { message: (await whyLines(installed, words)).slice(0, 12).join("\n"), failed: false };
    }
    const receipt = await lastReceipt(installed, session);
    if (!receipt) return { message: NO_ANSWER, failed: true };
    return { message: await judge(installed, session, receipt, command === "good" ? 1 : -1, words), failed: false };
  } catch (error) {
    return { message: error instanceof Error ? error.message : String(error), failed: true };
  }
}

export default { id: "reef", server };
