"""The adapter of opencode: installed beside the user's own, pointed at Reef with the client's token, started, run without a person."""

from __future__ import annotations

from collections.abc import Mapping

from adapters.opencode import layout
from adapters.opencode.headless import run_headless
from adapters.opencode.runtime import OPENCODE
from adapters.opencode.settings import without_reef
from daemon.harness.adapter import HeadlessTask, InstallContext, Present, Rendering, TaskOutcome
from daemon.harness.npm_adapter import NpmAdapter, agent_folder
from daemon.harness_tree import HarnessTree


class OpencodeAdapter(NpmAdapter):
    name = "opencode"
    title = "opencode"
    package = OPENCODE
    versions = OPENCODE.range
    limits = (
        "A plugin that an update changes runs as it was until opencode is started again; all else of an update holds at once.",
        "In a project with a folder .opencode it fetches @opencode-ai/plugin from npm into that folder, as it does without Reef.",
        "It needs a served window of at least 12,288 tokens: its own prompt and tools take about 7,600 of them.",
    )
    reads = layout.READS
    keeps = ("opencode/opencode.db", "opencode/opencode.db-wal", "opencode/opencode.db-shm", "opencode/storage/", "opencode/auth.json")
    displaced = ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")

    def environment(self, context: InstallContext) -> dict[str, str]:
        agent = agent_folder(context)
        return {
            "OPENCODE_CONFIG_DIR": str(agent),
            "XDG_CONFIG_HOME": str(agent / layout.CONFIG_HOME),
            "XDG_DATA_HOME": str(agent),  # `opencode/opencode.db` of it
            "XDG_STATE_HOME": str(agent / "xdg" / "state"),
            "XDG_CACHE_HOME": str(agent / "xdg" / "cache"),
            "OPENCODE_TEST_HOME": str(agent),  # where it looks for .opencode, .claude and .agents of the user's, and for nothing else
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
        }

    def render(self, context: InstallContext, present: Present) -> Rendering:
        return layout.render(context, present)

    def read_back(self, context: InstallContext, files: Mapping[str, str]) -> HarnessTree:
        return layout.read_back(context, files)

    def withdraw(self, path: str, text: str) -> str | None:
        return None if path in layout.LOCK_FILES else without_reef(path, text)

    def run_task(self, context: InstallContext, task: HeadlessTask) -> TaskOutcome:
        return run_headless(self.program(context), self.own_environment(context), task)
