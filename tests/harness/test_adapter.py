"""Adapters are found by name."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import EntryPoint

import pytest

from daemon.errors import ConfigError, NotFound
from daemon.harness import adapter as module
from daemon.harness.adapter import (
    Adapter,
    Detected,
    HeadlessTask,
    InstallContext,
    Installed,
    Launch,
    Present,
    Rendering,
    TaskOutcome,
    adapter_names,
    find_adapter,
)
from daemon.harness_tree import HarnessTree


class Example(Adapter):
    name, title, versions, reads = "example", "an example", "any", ()

    def render(self, context: InstallContext, present: Present) -> Rendering:
        return Rendering({})

    def read_back(self, context: InstallContext, files: Mapping[str, str]) -> HarnessTree:
        return context.tree

    def withdraw(self, path: str, text: str) -> str | None:
        return None

    def detect(self, context: InstallContext) -> Detected | None:
        return None

    def install(self, context: InstallContext) -> Installed:
        return Installed({}, "1")

    def uninstall(self, context: InstallContext) -> None:
        return None

    def launch(self, context: InstallContext, arguments: tuple[str, ...]) -> Launch:
        return Launch(("example", *arguments))

    def run_task(self, context: InstallContext, task: HeadlessTask) -> TaskOutcome:
        return TaskOutcome(0, task.prompt)


def test_by_name_with_a_sentence_for_what_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [
        EntryPoint(name, f"tests.harness.test_adapter:{value}", "reef.adapters")
        for name, value in (("example", "Example"), ("broken", "Nothing"), ("wrong", "EntryPoint"))
    ]
    monkeypatch.setattr(module, "entry_points", lambda group: points if group == "reef.adapters" else [])
    assert adapter_names() == ["broken", "example", "wrong"]
    assert find_adapter("example").name == "example"
    with pytest.raises(NotFound, match="Installed: broken, example, wrong"):
        find_adapter("p1")
    with pytest.raises(ConfigError, match="cannot be loaded"):
        find_adapter("broken")
    with pytest.raises(ConfigError, match="no Adapter class"):
        find_adapter("wrong")
