"""Pointing Claude Code at Reef must not lose what a person has set, write a token down, or let the model run what nobody allowed."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.claude.adapter import ClaudeAdapter
from adapters.claude.merging import merged, still, without
from adapters.claude.window import SMALLEST_CONTEXT_TOKENS, fit_window
from daemon.errors import DataError
from daemon.harness.adapter import InstallContext, Rendering
from daemon.harness_tree import HarnessTree
from daemon.records import JSONObject

ADAPTER = ClaudeAdapter()
HOOK = {"Stop": [{"hooks": [{"type": "command", "command": "mine"}]}]}


def context(tmp_path: Path, files: dict[str, str] | None = None, tokens: int = 32_768) -> InstallContext:
    token = tmp_path / "my tokens" / "client"
    return InstallContext(
        tmp_path / "claude", "http://127.0.0.1:8900/", token, "small", tokens, 4096, "claude", HarnessTree(files or {}), "r3"
    )


def rendered(tmp_path: Path, present: dict[str, str] | None = None, files: dict[str, str] | None = None, tokens: int = 32_768) -> Rendering:
    return ADAPTER.render(context(tmp_path, files, tokens), (present or {}).get)


def told(rendering: Rendering) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(rendering.files["settings.json"])
    return found


def test_every_role_is_the_served_model_and_the_sizes_fit_its_window(tmp_path: Path) -> None:
    found = told(rendered(tmp_path))
    assert found["apiKeyHelper"] == f"cat '{tmp_path}/my tokens/client'"
    assert found["env"]["ANTHROPIC_BASE_URL"] == "http://127.0.0.1:8900"
    assert {value for name, value in found["env"].items() if name.endswith("_MODEL")} == {"small"}
    assert found["env"]["CLAUDE_CODE_MAX_CONTEXT_TOKENS"] == "32768" and found["env"]["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] == "2048"
    assert found["env"]["CLAUDE_CODE_DISABLE_WORKFLOWS"] == "1"
    assert "CLAUDE_CODE_DISABLE_WORKFLOWS" not in told(rendered(tmp_path, tokens=131_072))["env"]
    assert found["permissions"] == {"disableAutoMode": "disable", "deny": ["WebSearch"]}


@pytest.mark.parametrize("tokens", [SMALLEST_CONTEXT_TOKENS, 40_000, 65_536, 131_072, 1_000_000])
def test_there_is_room_between_its_own_prompt_and_the_point_where_it_compacts(tokens: int) -> None:
    window = fit_window(tokens, 4096)
    prompt = 11_000 if window.small else 14_000
    assert window.context - window.reply - 13_000 - prompt > 6_500
    assert window.file < window.context - window.reply - 13_000 - prompt


def test_the_environment_holds_no_key_of_the_users_and_no_token(tmp_path: Path) -> None:
    found = ADAPTER.environment(context(tmp_path))
    assert found["ANTHROPIC_API_KEY"] == found["ANTHROPIC_AUTH_TOKEN"] == found["CLAUDE_CODE_USE_BEDROCK"] == ""
    headers = dict(line.split(": ") for line in found["ANTHROPIC_CUSTOM_HEADERS"].splitlines())
    assert headers == {"x-reef-scenario": "claude", "x-reef-tag-client": "claude", "x-reef-tag-release": "r3", "x-reef-tag-cwd": ""}


def test_what_a_person_has_set_survives_and_goes_on_after_the_removal(tmp_path: Path) -> None:
    person = {
        "theme": "light",
        "hooks": HOOK,
        "permissions": {"allow": ["Bash(ls)"]},
        "env": {"EDITOR": "vi"},
        "statusLine": {"type": "command", "command": "x"},
    }
    first = rendered(tmp_path, {"settings.json": json.dumps(person)})
    found = told(first)
    assert found["theme"] == "light" and found["permissions"]["allow"] == ["Bash(ls)"] and found["env"]["EDITOR"] == "vi"
    assert found["statusLine"]["command"] == "x" and found["hooks"]["Stop"][0] == HOOK["Stop"][0] and len(found["hooks"]["Stop"]) == 2
    assert rendered(tmp_path, dict(first.files)).files == first.files
    assert json.loads(ADAPTER.withdraw("settings.json", first.files["settings.json"]) or "") == person
    assert ADAPTER.withdraw("settings.json", rendered(tmp_path).files["settings.json"]) is None
    assert ADAPTER.withdraw("settings.json", "{ not json") == "{ not json"


def test_what_a_harness_no_longer_sets_goes_and_the_persons_own_stays(tmp_path: Path) -> None:
    person = {"settings.json": json.dumps({"theme": "light", "permissions": {"deny": ["Read(secret)"]}})}
    harness = {"settings.json": json.dumps({"hooks": HOOK, "permissions": {"deny": ["Bash(rm *)"]}, "model": "opus"})}
    first = rendered(tmp_path, person, harness)
    assert told(first)["permissions"]["deny"] == ["Read(secret)", "Bash(rm *)", "WebSearch"]
    second = told(rendered(tmp_path, dict(first.files)))
    assert "model" not in second and second["permissions"]["deny"] == ["Read(secret)", "WebSearch"] and len(second["hooks"]["Stop"]) == 1
    again = told(rendered(tmp_path, dict(first.files), tokens=131_072))
    assert "CLAUDE_CODE_DISABLE_CRON" not in again["env"], "what was for a small window is taken out"


def test_a_setting_changed_by_hand_is_read_back_and_what_follows_the_model_is_not(tmp_path: Path) -> None:
    harness = {
        "model": "opus",
        "permissions": {"allow": ["a", "b"]},
        "env": {"ANTHROPIC_MODEL": "theirs", "X": "1"},
        "apiKeyHelper": "evil",
    }
    tree = {"settings.json": json.dumps(harness)}
    files = dict(rendered(tmp_path, {}, tree).files)
    assert told(rendered(tmp_path, {}, tree))["apiKeyHelper"].startswith("cat ")
    assert ADAPTER.read_back(context(tmp_path, tree), files).files == tree
    now = json.loads(files["settings.json"])
    now["permissions"]["allow"] = ["b", "of the person's own"]
    now["env"]["X"] = "2"
    now["model"] = "haiku"
    now["theme"] = "light"
    back = ADAPTER.read_back(context(tmp_path, tree), {**files, "settings.json": json.dumps(now)}).files
    assert json.loads(back["settings.json"]) == {
        "model": "haiku",
        "permissions": {"allow": ["b"]},
        "env": {"ANTHROPIC_MODEL": "theirs", "X": "2"},
        "apiKeyHelper": "evil",
    }


def test_programs_of_a_harness_lie_where_its_hooks_find_them(tmp_path: Path) -> None:
    tree = {"extensions/check.sh": "#!/bin/sh\nexit 0\n", "extensions/notes.txt": "x", "prompts/again.md": "Again.\n"}
    found = rendered(tmp_path, {}, tree)
    assert found.files["hooks/check.sh"].startswith("#!") and found.executable == {"hooks/check.sh"}
    assert found.files["commands/again.md"] == "Again.\n"
    assert ADAPTER.read_back(context(tmp_path, tree), found.files).files == tree


def test_reefs_own_commands_are_not_the_models_to_call(tmp_path: Path) -> None:
    files = rendered(tmp_path).files
    assert all("\ndisable-model-invocation: true\n" in files[f"commands/{name}.md"] for name in ("good", "bad", "reef-update"))
    hooks = told(rendered(tmp_path))["hooks"]
    assert hooks["UserPromptExpansion"][0]["matcher"].split("|")[:2] == ["good", "bad"]
    assert shlex.split(hooks["Stop"][0]["hooks"][0]["command"])[-1] == str(tmp_path / "claude" / "agent" / "reef.json")


@pytest.mark.parametrize("tree", [{"commands/good.md": "x"}, {"commands/a.md": "x", "prompts/a.md": "y"}])
def test_two_commands_of_one_name_are_named(tmp_path: Path, tree: dict[str, str]) -> None:
    with pytest.raises(DataError, match=r"(commands/good|prompts/a)\.md"):
        rendered(tmp_path, {}, tree)


@pytest.mark.parametrize("text", ["{ not json", "[1]"])
def test_a_damaged_file_is_named(tmp_path: Path, text: str) -> None:
    with pytest.raises(DataError, match=r"Claude Code's settings\.json"):
        rendered(tmp_path, {"settings.json": text})


LEAVES = st.integers(0, 2) | st.lists(st.integers(0, 3), max_size=3, unique=True)
OBJECTS = st.dictionaries(st.sampled_from("abc"), LEAVES | st.dictionaries(st.sampled_from("abc"), LEAVES, max_size=3), max_size=3)


@settings(max_examples=60, deadline=None)
@given(OBJECTS, OBJECTS)
def test_what_was_put_in_is_found_again_and_can_be_taken_out(there: JSONObject, given_: JSONObject) -> None:
    both = merged(there, given_)
    assert merged(both, given_) == both
    assert still(given_, both, {}) == given_
    alone = {f"{name}'": value for name, value in there.items()}
    kept = without(merged(alone, given_), given_)
    assert kept == alone


def test_a_harness_without_rules_has_a_file_for_them_that_is_no_rule(tmp_path: Path) -> None:
    """Claude Code tells an open conversation of a file that changed, not of one that came."""
    found = rendered(tmp_path)
    assert found.files["CLAUDE.md"] == "No rules yet.\n"
    assert ADAPTER.read_back(context(tmp_path), found.files).files == {}
    grown = {**found.files, "CLAUDE.md": found.files["CLAUDE.md"] + "- Mine.\n"}
    assert ADAPTER.read_back(context(tmp_path), grown).files == {"AGENTS.md": "- Mine.\n"}
    for rules in ("", "No rules yet.\n", "No rules yet.\n- Then one.\n"):
        tree = {"AGENTS.md": rules}
        assert ADAPTER.read_back(context(tmp_path, tree), rendered(tmp_path, files=tree).files).files == tree
