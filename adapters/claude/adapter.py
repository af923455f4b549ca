"""The adapter of Claude Code: installed beside the user's own, pointed at Reef with the client's token, started, run without a person."""

from __future__ import annotations

from collections.abc import Mapping

from adapters.claude import layout
from adapters.claude.environment import HEADERS, launch_variables
from adapters.claude.headless import run_headless
from adapters.claude.package import CLAUDE
from adapters.claude.settings import FIRST_FILE, hook_command, without_reef
from daemon.harness.adapter import HeadlessTask, InstallContext, Present, Rendering, TaskOutcome
from daemon.harness.npm_adapter import NpmAdapter, agent_folder
from daemon.harness_tree import HarnessTree


class ClaudeAdapter(NpmAdapter):
    name = "claude"
    title = "Claude Code"
    package = CLAUDE
    versions = CLAUDE.range
    limits = (
        "It needs a served window of 32,768 tokens or more.",
        "Its web search runs on the maker's server and is off; so is auto mode, whose safety check runs there too.",
        "After an update within a session, the requests of that session keep the tag of the release it was started with.",
        "A run that you stop is reported with the next run's end, or when the session ends.",
    )
    reads = layout.READS
    folder_variable = HEADERS
    keeps = ("projects/", "plans/", "history.jsonl", "agents/", "output-styles/", "rules/")

    def environment(self, context: InstallContext) -> dict[str, str]:
        return launch_variables(agent_folder(context), context)

    def arguments(self, context: InstallContext) -> tuple[str, ...]:
        return ("--settings", str(agent_folder(context) / FIRST_FILE))

    def first(self, context: InstallContext) -> str:
        """Without a terminal Claude Code shows nobody what a hook says at the start."""
        return f"""\
case " $* " in
*" -p "* | *" --print "*) {hook_command(context)} --notice >&2 || : ;;
esac
"""

    def render(self, context: InstallContext, present: Present) -> Rendering:
        return layout.render(context, present)

    def read_back(self, context: InstallContext, files: Mapping[str, str]) -> HarnessTree:
        return layout.read_back(context, files)

    def withdraw(self, path: str, text: str) -> str | None:
        return without_reef(text)

    def run_task(self, context: InstallContext, task: HeadlessTask) -> TaskOutcome:
        return run_headless(self.program(context), self.arguments(context), self.own_environment(context), task)
