"""The adapter of codex: installed beside the user's own, pointed at Reef with the client's token, started, run without a person."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping

from adapters.codex import hooks, layout
from adapters.codex.headless import run_headless
from adapters.codex.runtime import CODEX
from adapters.codex.settings import FOLDER_VARIABLE, without_reef
from adapters.shared import BINDING_FILE
from daemon.harness.adapter import HeadlessTask, InstallContext, Present, Rendering, TaskOutcome
from daemon.harness.npm_adapter import NpmAdapter
from daemon.harness_tree import HarnessTree


class CodexAdapter(NpmAdapter):
    name = "codex"
    title = "codex"
    package = CODEX
    versions = CODEX.range
    limits = (
        "It tells of a new release with the first message of a session, not before; `codex exec` tells it in a line on stderr.",
        "Settings and hooks of an update hold from the next session on: type /new, or start it again.",
        "It has no commands or prompt templates any more: each is a skill that you type as $NAME.",
        "It has instructions for OpenAI's models alone: Reef gives it short ones, and model_instructions_file in its config.toml others.",
        "Sub-agents, images and web search need OpenAI's own tools and are not there.",
        "Skills in ~/.agents/skills, which all agents share, are there beside those of the release.",
        "At each start of its terminal interface it fetches an announcement from raw.githubusercontent.com, and has no switch for that.",
        "It needs a served window of at least 8,192 tokens.",
    )
    reads = layout.READS
    keeps = ("sessions/", "archived_sessions/", "history.jsonl", "auth.json")
    folder_variable = FOLDER_VARIABLE

    def environment(self, context: InstallContext) -> dict[str, str]:
        home = layout.folder(context)
        environment = {"CODEX_HOME": str(home)}
        if home.is_relative_to(os.path.realpath(tempfile.gettempdir())):
            environment["TMPDIR"] = "/var/tmp"  # codex's sandbox does not start from a folder below the one for temporary files
        return environment

    def first(self, context: InstallContext) -> str:
        return hooks.notice_script(layout.folder(context), BINDING_FILE)

    def render(self, context: InstallContext, present: Present) -> Rendering:
        return layout.render(context, present)

    def read_back(self, context: InstallContext, files: Mapping[str, str]) -> HarnessTree:
        return layout.read_back(context, files)

    def withdraw(self, path: str, text: str) -> str | None:
        return without_reef(text)

    def run_task(self, context: InstallContext, task: HeadlessTask) -> TaskOutcome:
        return run_headless(self.program(context), self.own_environment(context), task)
