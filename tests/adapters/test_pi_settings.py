"""Pointing pi at Reef must not lose what a person has set, and must not write a token down."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from adapters.pi.adapter import PiAdapter
from adapters.pi.window import fit_window
from daemon.errors import DataError
from daemon.harness.adapter import InstallContext, Rendering
from daemon.harness_tree import HarnessTree

WINDOW = fit_window(8192, 2048)


def context(tmp_path: Path, files: dict[str, str] | None = None) -> InstallContext:
    token = tmp_path / "my tokens" / "client"
    return InstallContext(tmp_path / "pi", "http://127.0.0.1:8900/", token, "small", 8192, 2048, "pi", HarnessTree(files or {}), "r3")


def rendered(tmp_path: Path, present: dict[str, str] | None = None, files: dict[str, str] | None = None) -> Rendering:
    return PiAdapter().render(context(tmp_path, files), (present or {}).get)


def test_pi_is_told_the_address_the_scenario_and_a_window_that_fits(tmp_path: Path) -> None:
    files = rendered(tmp_path).files
    found = json.loads(files["models.json"])["providers"]["reef"]
    assert found["baseUrl"] == "http://127.0.0.1:8900/v1"
    assert found["headers"] == {"x-reef-tag-client": "pi", "x-reef-scenario": "pi", "x-reef-tag-release": "r3"}
    assert found["models"] == [{"id": "small", "contextWindow": 8192, "maxTokens": 2048}]
    assert found["compat"]["sendSessionAffinityHeaders"] is True
    assert found["apiKey"] == f"!cat '{tmp_path}/my tokens/client'"
    assert json.loads(files["settings.json"])["compaction"]["reserveTokens"] == WINDOW.reserve


def test_other_providers_and_settings_survive(tmp_path: Path) -> None:
    present = {
        "models.json": json.dumps({"providers": {"mine": {"baseUrl": "http://localhost:1"}, "reef": {"old": 1}}}),
        "settings.json": json.dumps({"theme": "light", "compaction": {"enabled": False, "reserveTokens": 1}}),
    }
    files = rendered(tmp_path, present).files
    models, settings = (json.loads(files[name]) for name in ("models.json", "settings.json"))
    assert models["providers"]["mine"] == {"baseUrl": "http://localhost:1"}
    assert "old" not in models["providers"]["reef"]
    assert settings["theme"] == "light" and settings["compaction"]["enabled"] is False
    assert settings["defaultProvider"] == "reef" and settings["defaultModel"] == "small"


def test_a_setting_that_the_harness_no_longer_makes_goes_and_the_persons_own_stays(tmp_path: Path) -> None:
    first = rendered(tmp_path, {"settings.json": '{"theme": "light"}'}, {"settings.json": '{"hideThinkingBlock": true}'}).files
    assert json.loads(first["settings.json"])["hideThinkingBlock"] is True
    second = json.loads(rendered(tmp_path, dict(first)).files["settings.json"])
    assert "hideThinkingBlock" not in second and second["theme"] == "light"


@pytest.mark.parametrize("text", ["{ not json", "[1]"])
def test_a_damaged_file_is_named(tmp_path: Path, text: str) -> None:
    with pytest.raises(DataError, match=r"settings\.json"):
        rendered(tmp_path, {"settings.json": text})


def test_a_setting_changed_by_hand_is_read_back_and_what_follows_the_model_is_not(tmp_path: Path) -> None:
    tree = {"settings.json": '{"hideThinkingBlock": true, "defaultModel": "other"}'}
    files = dict(rendered(tmp_path, {}, tree).files)
    adapter = PiAdapter()
    assert adapter.read_back(context(tmp_path, tree), files).files == tree
    settings = json.loads(files["settings.json"])
    files["settings.json"] = json.dumps({**settings, "hideThinkingBlock": False, "lastChangelogVersion": "1.6.0"})
    back = adapter.read_back(context(tmp_path, tree), files)
    assert json.loads(back.files["settings.json"]) == {"hideThinkingBlock": False, "defaultModel": "other"}


def test_taking_it_away_leaves_what_a_person_added_and_nothing_of_ours(tmp_path: Path) -> None:
    adapter = PiAdapter()
    fresh = rendered(tmp_path).files
    assert [adapter.withdraw(name, fresh[name]) for name in ("models.json", "settings.json")] == [None, None]
    present = {
        "models.json": json.dumps({"providers": {"mine": {"baseUrl": "http://localhost:1"}}}),
        "settings.json": json.dumps({"theme": "light", "compaction": {"enabled": False}}),
    }
    files = rendered(tmp_path, present).files
    for name, text in present.items():
        assert json.loads(adapter.withdraw(name, files[name]) or "") == json.loads(text)
