"""brook reads `BROOK_HOME`: `brook.json` (model, address, token file), `BROOK.md` (rules), `skills/` and `commands/`."""

from __future__ import annotations

import json
from collections.abc import Mapping

from daemon.harness.adapter import HeadlessTask, InstallContext, Present, Rendering, TaskOutcome
from daemon.harness.headless import run_to_end
from daemon.harness.npm_adapter import NpmAdapter, agent_folder
from daemon.harness.runtime import Package
from daemon.harness.window import too_small
from daemon.harness_tree import RULES_PATH, HarnessTree

_RULES, _SETTINGS, _AS_THEY_ARE = "BROOK.md", "brook.json", ("skills/", "commands/")
_SMALLEST_CONTEXT_TOKENS = 4096


class BrookAdapter(NpmAdapter):
    name = "brook"
    title = "brook"
    package = Package("@example/brook", "brook", version="1.2.0", at_least=(1, 2, 0), below=(2, 0, 0), node=(22, 0, 0))
    versions = package.range
    limits = ("brook has no prompt templates, no extensions and no notice at its start.",)
    reads = (_RULES, *_AS_THEY_ARE)
    keeps = ("history/",)

    def environment(self, context: InstallContext) -> dict[str, str]:
        return {"BROOK_HOME": str(agent_folder(context)), "BROOK_TELEMETRY": "0"}

    def render(self, context: InstallContext, present: Present) -> Rendering:
        if context.context_tokens < _SMALLEST_CONTEXT_TOKENS:
            raise too_small(self.title, _SMALLEST_CONTEXT_TOKENS, context.context_tokens)
        settings = {
            "url": f"{context.base_url}/reef/scenarios/{context.scenario}/v1",
            "model": context.model_id,
            "window": context.context_tokens,
            "tokenFile": str(context.client_token_path),
            "headers": {"x-reef-tag-client": self.name, "x-reef-tag-release": context.release_id},
        }
        files = {path: text for path, text in context.tree.files.items() if path.startswith(_AS_THEY_ARE)}
        if RULES_PATH in context.tree.files:
            files[_RULES] = context.tree.files[RULES_PATH]
        return Rendering({**files, _SETTINGS: json.dumps(settings, indent=2) + "\n"})

    def read_back(self, context: InstallContext, files: Mapping[str, str]) -> HarnessTree:
        tree = {path: text for path, text in context.tree.files.items() if path != RULES_PATH and not path.startswith(_AS_THEY_ARE)}
        tree |= {RULES_PATH if path == _RULES else path: text for path, text in files.items()}
        return HarnessTree(tree)

    def withdraw(self, path: str, text: str) -> str | None:
        return None  # it shares no file with its user

    def run_task(self, context: InstallContext, task: HeadlessTask) -> TaskOutcome:
        program = self.program(context)
        environment = {**program.environment(task.environment), **self.own_environment(context)}
        ended = run_to_end([str(program.command), "run"], task.working_copy, environment, task.prompt, task.timeout_s)
        return TaskOutcome(ended.exit_code, ended.output.strip(), ended.timed_out, ended.log)
