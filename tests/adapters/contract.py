"""What every adapter must do. A subclass whose name begins with Test gives the fixture `adapter`; no network, no model."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from daemon.errors import Conflict, DataError, EngineError, NotFound, Unsupported
from daemon.harness.adapter import InstallContext
from daemon.harness.edits import find_edits
from daemon.harness.installed import read_manifest
from daemon.harness.installing import Place
from daemon.harness.launcher import launcher_path
from daemon.harness.npm_adapter import NpmAdapter
from daemon.harness_tree import HarnessTree, check_path
from tests.adapters.scripts import check_script

TOKEN = "rf_the_token_itself"
SKILL = "---\nname: lint\ndescription: When code is to be linted.\n---\nRun `ruff check`.\n"
TREE = HarnessTree(
    {
        "AGENTS.md": "# Rules\n\n## Testing <!-- id: testing -->\n\nRun the tests — all of them.\n",
        "skills/lint/SKILL.md": SKILL,
        "skills/lint/more/notes.txt": "no line end",
        "commands/ship.md": "---\ndescription: Ship it\n---\nShip $ARGUMENTS.\n",
        "serving.json": '{"system_prefix": "Be brief."}',
    }
)
LATER = HarnessTree({"AGENTS.md": "## Style\n\nShort sentences.\n", "skills/ship/SKILL.md": SKILL.replace("lint", "ship")})

NPM = """#!/bin/sh
mkdir -p "$3/node_modules/node/bin" "$3/node_modules/.bin"
printf '#!/bin/sh\\necho v22.23.3\\n' >"$3/node_modules/node/bin/node"
printf '#!/bin/sh\\necho {version} "$@"\\n' >"$3/node_modules/.bin/{command}"
chmod +x "$3/node_modules/node/bin/node" "$3/node_modules/.bin/{command}"
"""


class AdapterContract:
    @pytest.fixture
    def context(self, adapter: NpmAdapter, tmp_path: Path) -> InstallContext:
        token = tmp_path / "home with spaces" / "tokens" / "client"
        token.parent.mkdir(parents=True)
        token.write_text(TOKEN)
        place = tmp_path / "home with spaces" / "agents" / adapter.name
        return InstallContext(place, "http://127.0.0.1:8900", token, "small-model", 32_768, 4096, adapter.name, TREE, "r3")

    @pytest.fixture(autouse=True)
    def npm(self, adapter: NpmAdapter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """The path holds an npm that makes a program which answers its version, and no agent."""
        folder = tmp_path / "programs"
        folder.mkdir()
        npm = folder / "npm"
        npm.write_text(NPM.format(version=adapter.package.version, command=adapter.package.command))
        npm.chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin")
        return npm

    def test_what_it_says_of_itself_is_for_people(self, adapter: NpmAdapter) -> None:
        assert adapter.name.isidentifier() and adapter.title and adapter.versions
        assert adapter.package.accepts(adapter.package.version), "what is fetched must lie in the range"
        for limit in adapter.limits:
            assert limit.endswith(".") and "\n" not in limit

    @pytest.mark.parametrize("tree", [TREE, LATER, HarnessTree()], ids=["first", "later", "empty"])
    def test_what_is_rendered_is_read_back(self, adapter: NpmAdapter, context: InstallContext, tree: HarnessTree) -> None:
        context = replace(context, tree=tree)
        rendering = adapter.render(context, lambda path: None)
        for path in rendering.files:
            check_path(path)
        assert rendering.shared <= rendering.files.keys() and rendering.executable <= rendering.files.keys()
        assert adapter.read_back(context, _read(adapter, rendering.files)).files == tree.files
        again = adapter.render(context, rendering.files.get)
        assert again.files == rendering.files, "rendering over what was rendered changes nothing"

    def test_a_rule_and_a_skill_changed_or_added_or_removed_by_hand_are_seen(self, adapter: NpmAdapter, context: InstallContext) -> None:
        files = dict(adapter.render(context, lambda path: None).files)
        rules = next(path for path, text in files.items() if "all of them" in text)
        files[rules] = files[rules].replace("all of them", "the quick ones")
        skill = next(path for path in files if path.endswith("lint/SKILL.md"))
        files[skill.replace("lint", "mine")] = SKILL.replace("lint", "mine")
        files.pop(skill.replace("SKILL.md", "more/notes.txt"))
        back = adapter.read_back(context, _read(adapter, files)).files
        assert "the quick ones" in back["AGENTS.md"]
        assert back["skills/mine/SKILL.md"] == SKILL.replace("lint", "mine")
        changed = {path for path in {*back, *TREE.files} if back.get(path) != TREE.files.get(path)}
        assert changed == {"AGENTS.md", "skills/mine/SKILL.md", "skills/lint/more/notes.txt"}

    def test_the_model_and_its_window_are_told_and_the_token_is_in_no_file(self, adapter: NpmAdapter, context: InstallContext) -> None:
        adapter.install(context)
        written = {path: path.read_text() for path in context.home.rglob("*") if path.is_file() and "runtime" not in path.parts}
        everything = "\n".join(written.values())
        assert TOKEN not in everything and "owner" not in everything
        for told in ("small-model", "127.0.0.1:8900", str(context.client_token_path)):
            assert told in everything, told
        assert not any(path.stat().st_mode & 0o077 for path in written if path.parent.name != "bin"), "what it is told is its user's alone"

    def test_a_release_follows_another_and_nothing_is_left_in_the_end(self, adapter: NpmAdapter, context: InstallContext) -> None:
        first = adapter.install(context)
        assert adapter.install(context) == first, "a second time changes nothing"
        found = adapter.detect(context)
        assert found is not None and found.supported and found.version == adapter.package.version
        adapter.install(replace(context, tree=LATER, release_id="r4"))
        manifest = read_manifest(context.home)
        assert manifest is not None and manifest.release_id == "r4" and manifest.content_id == LATER.content_id
        assert not [path for path in context.home.rglob("*") if "lint" in path.name]
        assert adapter.read_back(replace(context, tree=LATER), Place(context.home).current(adapter.reads)).files == LATER.files
        adapter.uninstall(context)
        assert not context.home.exists()
        adapter.uninstall(context)  # nothing is there any more

    def test_what_the_harness_sets_goes_with_it(self, adapter: NpmAdapter, context: InstallContext) -> None:
        adapter.install(replace(context, tree=HarnessTree({"settings.json": '{"ofTheHarness": "yes"}'})))
        adapter.uninstall(context)
        assert not context.home.exists()

    def test_the_launcher_starts_it_wherever_it_lies(self, adapter: NpmAdapter, context: InstallContext) -> None:
        adapter.install(context)
        launcher = launcher_path(context.home, adapter.name)
        check_script(launcher)
        assert TOKEN not in launcher.read_text()
        answer = subprocess.run([str(launcher), "it's me"], capture_output=True, text=True, check=True)
        assert answer.stdout.strip().endswith("it's me") and adapter.package.version in answer.stdout
        launch = adapter.launch(context, ("it's me",))
        assert launch.argv[-1] == "it's me" and TOKEN not in str(launch)

    def test_what_a_person_changed_stays_and_stops_an_installation(self, adapter: NpmAdapter, context: InstallContext) -> None:
        adapter.install(context)
        rules = next(path for path in (context.home / "agent").rglob("*") if path.is_file() and "all of them" in path.read_text())
        rules.write_text("mine\n")
        with pytest.raises(Conflict, match=rules.name):
            adapter.install(replace(context, tree=LATER, release_id="r4"))
        manifest = read_manifest(context.home)
        assert rules.read_text() == "mine\n" and manifest is not None and manifest.release_id == "r3"
        adapter.uninstall(context)
        left = [path for path in context.home.rglob("*") if path.is_file()]
        assert left == [rules] and rules.read_text() == "mine\n"

    def test_another_model_and_port_are_taken_over_and_changes_by_hand_stay(self, adapter: NpmAdapter, context: InstallContext) -> None:
        adapter.install(context)
        rules = next(path for path in (context.home / "agent").rglob("*") if path.is_file() and "all of them" in path.read_text())
        rules.write_text(rules.read_text().replace("all of them", "the quick ones"))
        by_hand = rules.read_text()
        other = replace(context, base_url="http://127.0.0.1:8901", model_id="other-model", context_tokens=65_536, tree=HarnessTree())
        adapter.renew(other)
        assert rules.read_text() == by_hand and find_edits(adapter, context).changed == ["AGENTS.md (changed)"]
        manifest = read_manifest(context.home)
        assert manifest is not None and manifest.content_id == TREE.content_id and manifest.binding.model_id == "other-model"
        everything = "\n".join(path.read_text() for path in context.home.rglob("*") if path.is_file() and "runtime" not in path.parts)
        assert "other-model" in everything and "127.0.0.1:8901" in everything
        assert "small-model" not in everything and "127.0.0.1:8900" not in everything, "it would go on asking the old one"

    def test_a_link_where_a_file_should_be_is_refused(self, adapter: NpmAdapter, context: InstallContext, tmp_path: Path) -> None:
        outside = tmp_path / "outside"
        outside.mkdir()
        context.home.mkdir(parents=True)
        (context.home / "agent").symlink_to(outside)
        with pytest.raises((Conflict, DataError), match="link"):
            adapter.install(context)
        assert not list(outside.iterdir())

    @pytest.mark.parametrize("path", ["../AGENTS.md", "/etc/skills", "skills/../../x"])
    def test_a_tree_that_leaves_its_folder_is_refused(self, adapter: NpmAdapter, context: InstallContext, path: str) -> None:
        adapter.install(context)
        with pytest.raises(DataError):
            adapter.install(replace(context, tree=HarnessTree({path: "x", "skills/../../../x": "x"})))
        assert Place(context.home).manifest() == read_manifest(context.home)
        assert not (context.home.parent / "x").exists()

    def test_without_npm_or_network_the_old_one_stays(
        self, adapter: NpmAdapter, context: InstallContext, npm: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        npm.write_text("#!/bin/sh\nexit 1\n")
        with pytest.raises(EngineError, match="npm could not install"):
            adapter.install(context)
        monkeypatch.setenv("PATH", str(context.home))
        with pytest.raises(NotFound, match="npm was not found"):
            adapter.install(replace(context, home=context.home.with_name("other")))
        assert read_manifest(context.home) is None

    def test_a_window_that_is_far_too_small_is_refused_before_anything_is_fetched(
        self, adapter: NpmAdapter, context: InstallContext
    ) -> None:
        with pytest.raises(Unsupported, match="1024"):
            adapter.install(replace(context, context_tokens=1024, max_tokens=256))
        assert not context.home.exists()


def _read(adapter: NpmAdapter, files: Mapping[str, str]) -> dict[str, str]:
    """What an installation would read back: the files that the adapter says it reads."""
    return {path: text for path, text in files.items() if any(path == name or path.startswith(name) for name in adapter.reads)}
