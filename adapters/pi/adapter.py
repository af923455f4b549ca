"""The adapter of pi: installed beside the user's own, pointed at Reef with the client's token, started, run without a person."""

from __future__ import annotations

from collections.abc import Mapping

from adapters.pi import layout
from adapters.pi.headless import run_headless
from adapters.pi.runtime import PI
from adapters.pi.settings import without_reef
from daemon.harness.adapter import HeadlessTask, InstallContext, Present, Rendering, TaskOutcome
from daemon.harness.npm_adapter import NpmAdapter, agent_folder
from daemon.harness_tree import HarnessTree


class PiAdapter(NpmAdapter):
    name = "pi"
    title = "pi coding agent"
    package = PI
    versions = PI.range
    reads = layout.READS
    keeps = ("sessions/", "auth.json")

    def environment(self, context: InstallContext) -> dict[str, str]:
        return {"PI_CODING_AGENT_DIR": str(agent_folder(context)), "PI_OFFLINE": "1", "PI_TELEMETRY": "0"}

    def render(self, context: InstallContext, present: Present) -> Rendering:
        return layout.render(context, present)

    def read_back(self, context: InstallContext, files: Mapping[str, str]) -> HarnessTree:
        return layout.read_back(context, files)

    def withdraw(self, path: str, text: str) -> str | None:
        return without_reef(path, text)

    def run_task(self, context: InstallContext, task: HeadlessTask) -> TaskOutcome:
        return run_headless(self.program(context), self.environment(context), task)
