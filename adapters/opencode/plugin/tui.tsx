/** @jsxImportSource @opentui/solid */
/**
 * Reef in opencode's terminal: a notice at the start, a status line beside the prompt, and commands that show or update. None of it takes
 * keys unasked.
 */
import type { TuiPluginApi, TuiPluginMeta } from "@opencode-ai/plugin/tui";
import { getDataPaths } from "@opentui/core";
import { createSignal, For } from "solid-js";
import { diffLines, skip, statusLines } from "./answers.ts";
import { lookUp, statusLine } from "./changes.ts";
import { giveBack } from "./environment.ts";
import { type Installed, printable, readInstalled } from "./reef.ts";
import { update } from "./update.ts";

const AGAIN_MS = 60_000;
const NOTICE_MS = 12_000;
const ANSWER_MS = 6_000;

async function tui(api: TuiPluginApi, _options: unknown, _meta: TuiPluginMeta): Promise<void> {
  void getDataPaths().globalDataPath; // the terminal asks for it once, and later than this
  giveBack();
  const tell = (message: string, variant: "info" | "warning" | "error" = "info", duration = ANSWER_MS): void =>
    api.ui.toast({ message: printable(message), variant, duration });
  let installed: Installed;
  try {
    installed = readInstalled();
  } catch {
    tell("Reef's settings in opencode's folder are damaged. Type: reef install opencode", "error", NOTICE_MS);
    return;
  }
  const [status, setStatus] = createSignal("");
  const line = () => <text fg={api.theme.current.textMuted}>{printable(status())}</text>;
  api.slots.register({ slots: { home_prompt_right: line, session_prompt_right: line } });

  let lookedAt = 0;
  let told = "";
  const look = async (): Promise<void> => {
    lookedAt = Date.now();
    const news = await lookUp(installed, true);
    setStatus(news.status);
    if (news.message && news.message !== told) tell(news.message, news.kind, NOTICE_MS);
    told = news.message;
  };
  // Not awaited: opencode starts at once, and the notice comes when Reef has answered.
  void look();
  api.lifecycle.onDispose(
    api.event.on("session.idle", () => {
      if (Date.now() - lookedAt >= AGAIN_MS) void look();
    }),
  );

  const show = (lines: string[]): void => {
    api.ui.dialog.replace(() => (
      <box paddingLeft={2} paddingRight={2} paddingBottom={1}>
        <scrollbox maxHeight={Math.max(5, Math.floor(api.renderer.height / 2))} focused>
          <For each={lines}>{(one) => <text fg={api.theme.current.text}>{printable(one) || " "}</text>}</For>
        </scrollbox>
        <text fg={api.theme.current.textMuted}>esc closes</text>
      </box>
    ));
    api.ui.dialog.setSize("xlarge");
  };
  const command = (name: string, desc: string, work: () => Promise<void>) => ({
    namespace: "palette",
    name: `reef.${name}`,
    title: desc,
    desc,
    category: "Reef",
    slashName: `reef-${name}`,
    run: async () => {
      api.ui.dialog.clear();
      try {
        await work();
      } catch (error) {
        tell(error instanceof Error ? error.message : String(error), "error", NOTICE_MS);
      }
    },
  });
  api.keymap.registerLayer({
    commands: [
      command("status", "What Reef serves, and what is installed here", async () => {
        const { changes, lines } = await statusLines(installed);
        setStatus(statusLine(installed, changes));
        show(lines);
      }),
      command("diff", "What /reef-update would change, line by line", async () => show(await diffLines(installed))),
      command("skip", "Hear no more of the release that is new", async () => {
        const { changes, line: skipped } = await skip(installed);
        setStatus(statusLine(installed, changes));
        tell(skipped);
      }),
      command("update", "Bring the rules, skills and commands that Reef serves into this session", async () => {
        const brought = await update(api, installed, tell);
        installed = readInstalled();
        told = "";
        await look();
        tell(brought, "info", NOTICE_MS);
      }),
    ],
  });
}

export default { id: "reef", tui };
