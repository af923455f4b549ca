"""How one scenario learns is changed over HTTP, stands in the settings file, and holds at once and after a restart."""

from __future__ import annotations

from pathlib import Path

import pytest

from daemon.config_edit import with_setting
from daemon.config_load import load
from daemon.errors import ConfigError, Conflict
from daemon.paths import Home
from tests.daemon.running import running

MODE = ("scenarios", "pi", "learn", "mode")


async def test_a_scenario_that_is_told_not_to_learn_refuses_runs_and_the_file_says_so(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.config.write_text("# mine\nscenarios:\n  pi: {recipe: demos}\n")
    async with running(tmp_path) as daemon:
        await daemon.client.post("/reef/scenarios", json={"name": "pi"})
        refused = await daemon.client.post("/reef/scenarios/pi/update", json={"mode": "off"})
        assert refused.status_code == 403, "an agent would decide how it learns"
        answer = await daemon.owner.post("/reef/scenarios/pi/update", json={"mode": "off", "model": "scripted"})
        assert (answer.status_code, answer.json()["mode"], answer.json()["recipe"]) == (200, "off", "demos")
        with pytest.raises(Conflict, match="Learning is off"):
            await daemon.services.runner.start("pi")
        assert (await daemon.client.get("/reef/scenarios/pi/contract")).json()["mode"] == "off"
        assert daemon.services.config.for_scenario("default").learn.mode == "manual"
        assert "# mine" in home.config.read_text()
        [row, *_] = (await daemon.client.get("/reef/scenarios/pi/commits")).json()["commits"]
        assert (row["operation"], row["who"], row["before"], row["after"]) == ("settings", "owner", "r1", "r1")
        assert row["detail"] == {"setting": "learn.mode", "before": "manual", "after": "off"}
    assert load(home, None, {}, {}).config.for_scenario("pi").learn.mode == "off"


async def test_what_cannot_be_is_refused_and_nothing_has_changed(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        url = "/reef/scenarios/default/update"
        unknown = await daemon.owner.post(url, json={"mode": "sometimes"})
        assert unknown.status_code == 400 and "auto or manual or off" in unknown.json()["error"]["message"]
        model = await daemon.owner.post(url, json={"mode": "off", "model": "another"})
        assert model.status_code == 400 and "reef models use" in model.json()["error"]["hint"]
        assert (await daemon.owner.post("/reef/scenarios/nobody/update", json={"mode": "off"})).status_code == 404
        assert daemon.services.config.for_scenario("default").learn.mode == "manual"
        assert not daemon.services.home.config.exists()


async def test_what_another_source_says_goes_before_and_is_named(tmp_path: Path) -> None:
    async with running(tmp_path, settings={"scenarios.default.learn.mode": "auto"}) as daemon:
        answer = await daemon.owner.post("/reef/scenarios/default/update", json={"mode": "off"})
        assert answer.status_code == 409 and "command line" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# mine\nserver:\n  port: 9999 # keep\n",
        "scenarios:\n",
        "scenarios: {}\nserver: {port: 9999} # keep\n",
        "scenarios:\n  other: {recipe: sft}\n",
        "scenarios:\n  pi:\nserver:\n  port: 9999 # keep\n",
        "scenarios:\n  pi:\n    recipe: sft # keep\n",
        "scenarios: {pi: {learn: {idle_s: 5}}}\n",
        "scenarios:\n  pi:\n    learn:\n      mode: auto # keep\n      idle_s: 5\n",
        "scenarios:\n  pi:\n    learn:\n        idle_s: 5\n    recipe: sft\nserver: {port: 9999} # keep",
        "scenarios:\n  pi:\n    learn: # keep\n    recipe: sft\n",
    ],
)
def test_only_that_setting_changes(tmp_path: Path, text: str) -> None:
    home = Home(tmp_path)
    home.config.write_text(text)
    before = load(home, None, {}, {}).config if "pi:\n" not in text else None
    for mode in ("off", "manual"):
        home.config.write_text(with_setting(home.config.read_text(), MODE, mode))
        config = load(home, None, {}, {}).config
        assert config.for_scenario("pi").learn.mode == mode
    edited = home.config.read_text()
    assert edited.count("# keep") == text.count("# keep") and with_setting(edited, MODE, "manual") == edited
    assert config.for_scenario("pi").learn.idle_s == (5 if "idle_s: 5" in text else 300)
    assert config.server.port == (9999 if "9999" in text else 8900)
    assert "sft" not in text or "sft" in str(config.scenarios)
    assert before is None or before.learn == config.learn


@pytest.mark.parametrize("text", ["- a list\n", "scenarios: [pi]\n", "scenarios:\n  pi: &x {learn: 3}\n  <<: *x\n\t1", "a: b\n---\nc: d\n"])
def test_a_file_that_cannot_be_changed_is_left_to_the_person(text: str) -> None:
    with pytest.raises(ConfigError, match="settings file"):
        with_setting(text, MODE, "off")
