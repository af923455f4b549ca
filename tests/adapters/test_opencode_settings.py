"""Pointing opencode at Reef must not lose what a person has set, must not write a token down, and must not let opencode fetch anything."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from adapters.opencode.adapter import OpencodeAdapter
from daemon.errors import DataError, Unsupported
from daemon.harness.adapter import InstallContext, Rendering
from daemon.harness_tree import HarnessTree

LOCK = "package-lock.json"


def context(tmp_path: Path, files: dict[str, str] | None = None, window: int = 32_768) -> InstallContext:
    token = tmp_path / "my tokens" / "client"
    home, url = tmp_path / "agents" / "opencode", "http://127.0.0.1:8900/"
    return InstallContext(home, url, token, "small/one", window, 4096, "mine", HarnessTree(files or {}), "r3")


def rendered(tmp_path: Path, present: dict[str, str] | None = None, files: dict[str, str] | None = None) -> Rendering:
    return OpencodeAdapter().render(context(tmp_path, files), (present or {}).get)


def test_opencode_is_told_the_address_the_scenario_and_a_window_that_fits(tmp_path: Path) -> None:
    config = json.loads(rendered(tmp_path).files["opencode.json"])
    reef = config["provider"]["reef"]
    assert reef["options"]["baseURL"] == "http://127.0.0.1:8900/v1"
    assert reef["options"]["apiKey"] == f"{{file:{tmp_path}/my tokens/client}}"
    assert reef["options"]["headers"] == {"x-reef-tag-client": "opencode", "x-reef-scenario": "mine", "x-reef-tag-release": "r3"}
    assert reef["models"]["small/one"]["limit"] == {"context": 32_768, "output": 4096}
    assert config["model"] == config["small_model"] == "reef/small/one", "titles are asked of Reef too"
    assert (config["share"], config["autoupdate"]) == ("disabled", False)


def test_a_window_that_the_own_prompt_fills_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match=r"12288 tokens; the served model has 8192.*use pi"):
        OpencodeAdapter().render(context(tmp_path, window=8192), lambda path: None)


def test_what_a_person_has_set_survives_and_what_follows_the_model_does_not(tmp_path: Path) -> None:
    present = {
        "opencode.json": json.dumps({"permission": {"bash": "ask"}, "model": "other/big", "provider": {"other": {"name": "Other"}}}),
        "tui.json": json.dumps({"theme": "mine", "plugin": ["./own.tsx"]}),
    }
    files = rendered(tmp_path, present).files
    config, terminal = json.loads(files["opencode.json"]), json.loads(files["tui.json"])
    assert config["permission"] == {"bash": "ask"} and config["provider"]["other"] == {"name": "Other"}
    assert config["model"] == "reef/small/one"
    assert terminal["theme"] == "mine" and terminal["plugin"] == ["./own.tsx", "./plugins/reef/tui.tsx"]
    adapter = OpencodeAdapter()
    left = {name: json.loads(adapter.withdraw(name, files[name]) or "") for name in present}
    assert left["opencode.json"] == {
        "$schema": "https://opencode.ai/config.json",
        "permission": {"bash": "ask"},
        "provider": {"other": {"name": "Other"}},
    }
    assert left["tui.json"] == {"$schema": "https://opencode.ai/tui.json", "theme": "mine", "plugin": ["./own.tsx"]}
    fresh = rendered(tmp_path).files
    assert [adapter.withdraw(name, fresh[name]) for name in sorted(OpencodeAdapter().render(context(tmp_path), {}.get).shared)] == [
        None
    ] * 4


def test_a_setting_of_the_harness_comes_back_changed_and_goes_with_it(tmp_path: Path) -> None:
    tree = {"settings.json": '{"permission": {"bash": "ask"}, "model": "other"}'}
    files = dict(rendered(tmp_path, {}, tree).files)
    adapter = OpencodeAdapter()
    assert adapter.read_back(context(tmp_path, tree), files).files == tree
    config = json.loads(files["opencode.json"])
    changed = {**files, "opencode.json": json.dumps({**config, "permission": {"bash": "deny"}, "username": "me"})}
    back = adapter.read_back(context(tmp_path, tree), changed).files["settings.json"]
    assert json.loads(back) == {"permission": {"bash": "deny"}, "model": "other"}
    assert "permission" not in json.loads(rendered(tmp_path, files).files["opencode.json"])


def test_prompts_are_commands_and_extensions_are_plugins_there_and_back(tmp_path: Path) -> None:
    tree = {"prompts/review.md": "Review $1.\n", "commands/ship.md": "Ship.\n", "extensions/quiet.ts": "export {};\n"}
    files = dict(rendered(tmp_path, {}, tree).files)
    assert {"commands/review.md", "commands/ship.md", "plugins/quiet.ts"} <= files.keys()
    files["commands/new.md"] = "New.\n"
    back = OpencodeAdapter().read_back(context(tmp_path, tree), files)
    assert back.files == {**tree, "commands/new.md": "New.\n"}, "Reef's own plugins are none of the harness"


@pytest.mark.parametrize(
    ("tree", "named"),
    [
        ({"prompts/a.md": "A", "commands/a.md": "B"}, "same command"),
        ({"extensions/reef.ts": "x"}, "Reef's own"),
        ({"extensions/reef/server.ts": "x"}, "Reef's own"),
    ],
)
def test_two_of_one_name_are_refused(tmp_path: Path, tree: dict[str, str], named: str) -> None:
    with pytest.raises(DataError, match=named):
        rendered(tmp_path, {}, tree)


def test_opencode_finds_nothing_to_fetch_but_what_a_person_asked_for(tmp_path: Path) -> None:
    """It compares the lock file with what it wants, and looks for a folder `node_modules`."""
    files = rendered(tmp_path).files
    for folder in ("", "xdg/config/opencode/"):
        assert "@opencode-ai/plugin" in json.loads(files[f"{folder}{LOCK}"])["packages"][""]["dependencies"]
        assert f"{folder}node_modules/README" in files
    theirs = '{"packages": {"": {"dependencies": {"@opencode-ai/plugin": "1.18.33", "left": "1"}}}}'
    assert rendered(tmp_path, {LOCK: theirs}).files[LOCK] == theirs


@pytest.mark.parametrize("name", ["opencode.json", "tui.json"])
@pytest.mark.parametrize("text", ["{ // a comment", "[1]"])
def test_a_damaged_file_is_named_and_stays_at_an_uninstall(tmp_path: Path, name: str, text: str) -> None:
    with pytest.raises(DataError, match=name):
        rendered(tmp_path, {name: text})
    assert OpencodeAdapter().withdraw(name, text) == text
