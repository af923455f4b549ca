"""A harness that somebody changed by hand is noticed, whether the daemon ran or not, and an installation is no such change."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from daemon.harness import installing, noticing
from daemon.harness.adapter import Adapter, Detected, HeadlessTask, InstallContext, Installed, Launch, Present, Rendering, TaskOutcome
from daemon.harness.installed import TREE, Binding, Manifest, write_tree
from daemon.harness.installing import JOURNAL, Content, held
from daemon.harness.noticing import InstalledAgents, watch_agents
from daemon.harness_tree import HarnessTree
from tests.daemon.running import running, until

BINDING = Binding(base_url="http://127.0.0.1:1", scenario="plain", model_id="small", context_tokens=8192, max_tokens=1)
FILES = {"AGENTS.md": "- Say please.\n", "skills/lint/SKILL.md": "---\nname: lint\ndescription: d\n---\n"}


class Plain(Adapter):
    """Its files lie as the tree has them."""

    name, title, versions, reads = "plain", "a plain agent", "any", ("AGENTS.md", "skills/")

    def render(self, context: InstallContext, present: Present) -> Rendering:
        return Rendering(context.tree.files)

    def read_back(self, context: InstallContext, files: object) -> HarnessTree:
        return HarnessTree(files)  # type: ignore[arg-type]

    def withdraw(self, path: str, text: str) -> str | None:
        return None

    def detect(self, context: InstallContext) -> Detected | None:
        return None

    def install(self, context: InstallContext, seen: object = None) -> Installed:
        return Installed({}, "1")

    def uninstall(self, context: InstallContext) -> None:
        return None

    def launch(self, context: InstallContext, arguments: tuple[str, ...]) -> Launch:
        return Launch(arguments)

    def run_task(self, context: InstallContext, task: HeadlessTask) -> TaskOutcome:
        return TaskOutcome(0, "")


@pytest.fixture(autouse=True)
def found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noticing, "find_adapter", lambda name: Plain())


def install(home: Path, files: dict[str, str]) -> None:
    tree = HarnessTree(files)
    manifest = Manifest(adapter="plain", version="1", command=(), release_id="r1", content_id=tree.content_id, binding=BINDING)
    with held(home) as place:
        laid = {**{f"agent/{path}": Content(text) for path, text in files.items()}, TREE: Content(write_tree(tree))}
        place.lay_down(laid, manifest, laid.keys())


def sentences(agents: InstalledAgents) -> list[str]:
    return [agent.sentence for agent in agents.look() if agent.sentence]


def test_what_changed_while_nobody_looked_is_told_and_a_change_taken_back_is_not(tmp_path: Path) -> None:
    home = tmp_path / "agents" / "plain"
    install(home, FILES)
    rules = home / "agent" / "AGENTS.md"
    rules.write_text("- Say thanks.\n")
    (home / "agent" / "skills" / "lint" / "SKILL.md").unlink()
    agents = InstalledAgents(home.parent)
    told = "plain: changed by hand: AGENTS.md (changed), skills/lint/SKILL.md (removed); reef update plain keeps it"
    assert sentences(agents) == [told] and agents.changes == 1
    assert sentences(agents) == [told] and agents.changes == 1, "the same is not counted again"
    rules.write_text(FILES["AGENTS.md"])
    assert sentences(agents) == ["plain: changed by hand: skills/lint/SKILL.md (removed); reef update plain keeps it"]
    install(home, FILES)
    assert sentences(agents) == []
    rules.write_bytes(b"\xff")
    assert sentences(agents)[0].startswith(f"plain: {rules} is not valid UTF-8")


def test_what_did_not_change_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path / "plain", FILES)
    agents = InstalledAgents(tmp_path)
    before = agents.look()
    monkeypatch.setattr(noticing, "find_edits", lambda *_: pytest.fail("it was read again"))
    assert agents.look() == before


def test_an_installation_under_way_is_no_change_by_hand(tmp_path: Path) -> None:
    home = tmp_path / "plain"
    install(home, FILES)
    agents = InstalledAgents(tmp_path)
    before = agents.look()
    with held(home):
        (home / JOURNAL).write_text("{}")
        (home / "agent" / "AGENTS.md").write_text("of the next release")
        assert agents.look() == before
        (home / JOURNAL).unlink()
    assert agents.look()[0].changed == ("AGENTS.md (changed)",)


def test_an_installation_that_was_interrupted_is_finished_and_no_change_by_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "plain"
    install(home, FILES)
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(installing, "failpoint", power_cut)
        install(home, {"AGENTS.md": "- Of the next release.\n", "skills/came/SKILL.md": "x"})
    assert (home / JOURNAL).exists() and (home / "agent" / "AGENTS.md").read_text() == "- Of the next release.\n"
    [agent] = InstalledAgents(tmp_path).look()
    assert agent.sentence == "" and not (home / JOURNAL).exists() and (home / "agent" / "skills" / "came").exists()


def power_cut(name: str) -> None:
    if name == "install.put-one":
        raise KeyboardInterrupt


def test_an_adapter_that_fails_is_named_and_the_others_are_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(Plain):
        def read_back(self, context: InstallContext, files: object) -> HarnessTree:
            raise ZeroDivisionError("of theirs")

    monkeypatch.setattr(noticing, "find_adapter", lambda name: Broken() if name == "broken" else Plain())
    for name in ("broken", "plain"):
        install(tmp_path / name, FILES)
        (tmp_path / name / "agent" / "AGENTS.md").write_text("mine")
    broken, plain = sentences(InstalledAgents(tmp_path))
    assert broken == "broken: Its adapter fails: ZeroDivisionError: of theirs. Tell its author."
    assert plain.startswith("plain: changed by hand: AGENTS.md")


def test_only_folders_that_hold_a_harness_are_watched(tmp_path: Path) -> None:
    home = tmp_path / "plain"
    install(home, FILES)
    for other in ("sessions/x", "skills/lint/node_modules/y", "cache"):
        (home / "agent" / other).mkdir(parents=True)
    (home / "runtime" / "1").mkdir(parents=True)
    (home / "agent" / "skills" / "out").symlink_to(tmp_path.parent)
    watched = {path.relative_to(tmp_path).as_posix() for path in InstalledAgents(tmp_path).folders()}
    assert watched == {".", "plain", "plain/agent", "plain/agent/skills", "plain/agent/skills/lint"}
    assert InstalledAgents(tmp_path / "nowhere").folders() == [] and InstalledAgents(tmp_path / "nowhere").look() == []


async def test_the_status_says_it_and_whoever_listens_is_told_soon(tmp_path: Path) -> None:
    async with running(tmp_path / "reef") as daemon:
        agents, home = daemon.services.agents, daemon.services.home.agents / "plain"
        install(home, FILES)
        watching = asyncio.create_task(watch_agents(agents, daemon.services.stopping))
        try:
            await until(lambda: agents.changes == 1)
            await asyncio.sleep(0.2)  # the watching has begun by then; if not, the look every 5 s finds it
            rules = home / "agent" / "AGENTS.md"
            rules.with_suffix(".new").write_text("- Say thanks.\n")
            os.replace(rules.with_suffix(".new"), rules)  # as editors write
            await until(lambda: agents.changes == 2, seconds=20)
            status = (await daemon.owner.get("/reef/status")).json()
            [agent] = status["agents"]
            assert agent["changed"] == ["AGENTS.md (changed)"]
            assert agent["notes"][0].endswith("; reef update plain keeps it") and "set up for small" in agent["notes"][1]
            skill = home / "agent" / "skills" / "mine" / "SKILL.md"
            skill.parent.mkdir()
            skill.write_text(FILES["skills/lint/SKILL.md"].replace("lint", "mine"))
            await until(lambda: agents.look()[0].changed == ("AGENTS.md (changed)", "skills/mine/SKILL.md (added)"), seconds=20)
        finally:
            daemon.services.stopping.set()
            await watching
