"""Pointing pi at Reef must not lose what a person has set, and must not write a token down."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from adapters.pi.settings import provider, remove_settings, write_settings
from adapters.pi.window import fit_window
from daemon.errors import DataError

WINDOW = fit_window(8192, 2048)


def write(folder: Path, token: Path) -> None:
    write_settings(folder, provider("http://127.0.0.1:8900/", "pi", token, "small", WINDOW), "small", WINDOW)


def test_pi_is_told_the_address_the_scenario_and_a_window_that_fits(tmp_path: Path) -> None:
    write(tmp_path, tmp_path / "client")
    found = json.loads((tmp_path / "models.json").read_text())["providers"]["reef"]
    assert found["baseUrl"] == "http://127.0.0.1:8900/v1"
    assert found["headers"]["x-reef-scenario"] == "pi"
    assert found["models"] == [{"id": "small", "contextWindow": 8192, "maxTokens": 2048}]
    assert found["compat"]["sendSessionAffinityHeaders"] is True
    assert json.loads((tmp_path / "settings.json").read_text())["compaction"]["reserveTokens"] == WINDOW.reserve


def test_the_token_itself_is_in_no_file(tmp_path: Path) -> None:
    token = tmp_path / "my tokens" / "client"
    token.parent.mkdir()
    token.write_text("rf_secret_value")
    write(tmp_path / "agent", token)
    written = "".join(path.read_text() for path in (tmp_path / "agent").iterdir())
    assert "rf_secret_value" not in written
    assert f"!cat '{token}'" in json.loads((tmp_path / "agent" / "models.json").read_text())["providers"]["reef"]["apiKey"]
    assert stat.S_IMODE((tmp_path / "agent" / "models.json").stat().st_mode) == 0o600


def test_other_providers_and_settings_survive_a_second_installation(tmp_path: Path) -> None:
    (tmp_path / "models.json").write_text(json.dumps({"providers": {"mine": {"baseUrl": "http://localhost:1"}, "reef": {"old": 1}}}))
    (tmp_path / "settings.json").write_text(json.dumps({"theme": "light", "compaction": {"enabled": False, "reserveTokens": 1}}))
    write(tmp_path, tmp_path / "client")
    models, settings = (json.loads((tmp_path / name).read_text()) for name in ("models.json", "settings.json"))
    assert models["providers"]["mine"] == {"baseUrl": "http://localhost:1"}
    assert "old" not in models["providers"]["reef"]
    assert settings["theme"] == "light" and settings["compaction"]["enabled"] is False
    assert settings["defaultProvider"] == "reef" and settings["defaultModel"] == "small"


def test_a_damaged_file_is_named_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text("{ not json")
    with pytest.raises(DataError, match=r"settings\.json"):
        write(tmp_path, tmp_path / "client")
    assert (tmp_path / "settings.json").read_text() == "{ not json"
    assert not (tmp_path / "models.json").exists()


def test_taking_it_away_leaves_what_a_person_added_and_nothing_of_ours(tmp_path: Path) -> None:
    write(tmp_path, tmp_path / "client")
    (tmp_path / "auth.json").write_text("{}")
    remove_settings(tmp_path)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "models.json").write_text(json.dumps({"providers": {"mine": {"baseUrl": "http://localhost:1"}}}))
    (tmp_path / "settings.json").write_text(json.dumps({"theme": "light", "compaction": {"enabled": False}}))
    write(tmp_path, tmp_path / "client")
    remove_settings(tmp_path)
    assert json.loads((tmp_path / "models.json").read_text()) == {"providers": {"mine": {"baseUrl": "http://localhost:1"}}}
    assert json.loads((tmp_path / "settings.json").read_text()) == {"theme": "light", "compaction": {"enabled": False}}
