"""The owner lists the models and puts another in what serves' place, while clients go on asking."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from daemon import model_switch
from daemon.config import EngineConfig, LlamaConfig
from daemon.config_load import load
from daemon.engine.base import Engine
from daemon.engine.llama import room
from daemon.errors import DataError, EngineError, StorageError
from daemon.paths import Home
from daemon.serving.releases import base_facts
from daemon.versions.manifest import Operation
from daemon.versions.release import Draft
from tests.daemon.running import Running, running, until
from tests.engine.fake import ScriptedEngine
from tests.engine.test_model_files import write_model
from tests.versions.parts import lora_folder


class OtherEngine(ScriptedEngine):
    """Another model: its replies say which."""

    def __init__(self, path: Path, sha256: str = "ab" * 32) -> None:
        super().__init__({"": f"{path.stem} speaks"}, model_path=path)
        self._model = replace(self._model, id=path.stem.lower(), sha256=sha256, context_tokens=4096)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Engine]:
    """The engines that were made for a switch; a test may put its own in advance."""
    found: list[Engine] = []

    def make(config: EngineConfig, home: Home) -> Engine:
        assert isinstance(config, LlamaConfig)
        found.append(OtherEngine(home.models / config.model))
        return found[-1]

    monkeypatch.setattr(model_switch, "make_engine", make)
    return found


@pytest.fixture
async def daemon(tmp_path: Path) -> AsyncIterator[Running]:
    write_model(tmp_path / "models" / "Other.gguf")
    (tmp_path / "config.yaml").write_text("# mine\nengine:\n  streams: 2 # few\n")
    async with running(tmp_path, ScriptedEngine(token_delay_s=0.01)) as daemon:
        yield daemon


async def use(daemon: Running, name: str = "Other.gguf") -> tuple[int, dict[str, object]]:
    answer = await daemon.owner.post("/reef/models/use", json={"name": name})
    return answer.status_code, answer.json()


async def test_the_list_says_what_there_is(daemon: Running) -> None:
    listed = (await daemon.client.get("/reef/models")).json()
    assert listed["serves"] == "scripted"
    names = {model["name"]: model for model in listed["models"]}
    assert names["embedded"]["trains"] and names["Other.gguf"]["window_tokens"] == 2048
    assert not any(model["serves"] for model in names.values())  # the scripted engine has no file


async def test_another_model_serves_with_a_release_of_its_own_and_the_settings_name_it(daemon: Running, made: list[Engine]) -> None:
    assert (await daemon.chat("hello")).json()["choices"][0]["message"]["content"] == "echo: hello"
    status, answer = await use(daemon)
    assert status == 200, answer
    assert (answer["model"], answer["before"], answer["name"], answer["context_tokens"]) == ("other", "scripted", "Other.gguf", 4096)
    [release] = answer["releases"]
    assert (release["scenario"], release["release_id"], release["change"]) == ("default", "r2", "base model scripted → other")
    reply = await daemon.chat("hello", model="other")
    assert reply.json()["choices"][0]["message"]["content"] == "Other speaks"
    assert reply.headers["x-reef-release-id"] == "r2"
    assert (await daemon.chat("hello")).status_code == 404  # the old name
    text = daemon.services.home.config.read_text()
    assert "# mine" in text and "streams: 2 # few" in text
    assert load(daemon.services.home, None, {}, {}).config.engine == LlamaConfig(model="Other.gguf", streams=2)
    assert daemon.services.started_with.engine == LlamaConfig(model="Other.gguf", streams=2), "no restart is asked for"
    status_page = (await daemon.client.get("/reef/status")).json()
    assert status_page["engine"]["model"] == "other" and status_page["warnings"] == []


async def test_installed_agents_are_told_of_the_model_that_serves(daemon: Running, made: list[Engine], tmp_path: Path) -> None:
    (tmp_path / "agents").mkdir()
    assert (await use(daemon))[0] == 200
    assert (tmp_path / "agents" / "served").read_text().startswith("other, 4096 tokens, port ")


async def test_a_client_cannot_change_the_model(daemon: Running, made: list[Engine]) -> None:
    assert (await daemon.client.post("/reef/models/use", json={"name": "Other.gguf"})).status_code == 403
    assert made == []


async def test_a_stream_under_way_ends_on_the_model_that_began_it(daemon: Running, made: list[Engine]) -> None:
    old = daemon.services.engine.current
    assert isinstance(old, ScriptedEngine)
    body = {"model": "scripted", "messages": [{"role": "user", "content": "word " * 60}], "stream": True}
    text = ""
    async with daemon.client.stream("POST", "/v1/chat/completions", json=body) as response:
        assert response.headers["x-reef-release-id"] == "r1"
        async for line in response.aiter_lines():
            frame = json.loads(line[6:]) if line.startswith("data: {") else {"choices": []}
            text += "".join(choice["delta"].get("content") or "" for choice in frame["choices"])
            if len(text) > 20 and not made:
                assert (await use(daemon))[0] == 200
                assert (await daemon.chat("x", model="other")).json()["choices"][0]["message"]["content"] == "Other speaks"
                assert old.stats.state == "ready"
    assert text == "echo: " + "word " * 60
    await until(lambda: old.stats.state == "stopped")
    record = daemon.services.reader.items("default", kind="inference")
    assert {(item.model, item.release_id) for item in record} == {("scripted", "r1"), ("other", "r2")}  # type: ignore[union-attr]


async def test_a_session_under_way_takes_the_new_head(daemon: Running, made: list[Engine]) -> None:
    headers = {"x-reef-tag-session": "one"}
    body = {"messages": [{"role": "user", "content": "x"}]}
    first = await daemon.client.post("/v1/chat/completions", json={"model": "scripted", **body}, headers=headers)
    await use(daemon)
    second = await daemon.client.post("/v1/chat/completions", json={"model": "other", **body}, headers=headers)
    assert [one.headers["x-reef-release-id"] for one in (first, second)] == ["r1", "r2"]


async def test_a_release_of_the_model_before_is_refused_with_what_to_put_back(daemon: Running, made: list[Engine]) -> None:
    await use(daemon)
    named = [model["id"] for model in (await daemon.client.get("/v1/models")).json()["data"]]
    assert named == ["other", "other@r2"]
    asked = await daemon.chat("x", model="other@r1")
    assert asked.status_code == 409 and "base missing" in asked.text
    rolled = await daemon.owner.post("/reef/scenarios/default/rollback", json={"release_id": "r1"})
    assert rolled.status_code == 409 and "base missing: put back" in rolled.json()["error"]["hint"]
    undone = await daemon.owner.post("/reef/scenarios/default/undo", json={})
    assert undone.status_code == 409 and "base missing" in undone.text


@pytest.mark.parametrize("failure", [DataError("llama.cpp cannot load it."), EngineError("The engine did not start in time.")])
async def test_a_model_that_does_not_load_changes_nothing(
    daemon: Running, monkeypatch: pytest.MonkeyPatch, failure: DataError | EngineError
) -> None:
    class Broken(OtherEngine):
        async def start(self) -> None:
            raise failure

    monkeypatch.setattr(model_switch, "make_engine", lambda config, home: Broken(home.models / config.model))
    before = daemon.services.home.config.read_text()
    status, answer = await use(daemon)
    assert status == failure.status and answer["error"]["message"] == failure.message  # type: ignore[index]
    await _as_before(daemon, before)


async def test_a_model_that_cannot_answer_with_a_scenario_s_hints_changes_nothing(daemon: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = OtherEngine(daemon.services.home.models / "Other.gguf")
    engine.fail_next = EngineError("It fell over.")
    monkeypatch.setattr(model_switch, "make_engine", lambda config, home: engine)
    before = daemon.services.home.config.read_text()
    status, answer = await use(daemon)
    assert status == 409 and "scenario default: It fell over" in answer["error"]["message"]  # type: ignore[index]
    assert engine.stats.state == "stopped"
    await _as_before(daemon, before)


async def test_settings_that_cannot_be_written_change_nothing(daemon: Running, made: list[Engine], monkeypatch: pytest.MonkeyPatch) -> None:
    def full(config: Path, model: str) -> bool:
        raise StorageError("Cannot write it: No space left on device.", "Free disk space.")

    monkeypatch.setattr(model_switch, "write_model", full)
    before = daemon.services.home.config.read_text()
    status, _ = await use(daemon)
    assert status == 507
    assert made[0].stats.state == "stopped"
    await _as_before(daemon, before)


async def _as_before(daemon: Running, config: str) -> None:
    reply = await daemon.chat("hello")
    assert reply.json()["choices"][0]["message"]["content"] == "echo: hello" and reply.headers["x-reef-release-id"] == "r1"
    assert daemon.services.home.config.read_text() == config
    assert daemon.services.started_with.engine == LlamaConfig(streams=2)
    listed = (await daemon.client.get("/reef/scenarios/default/releases")).json()["releases"]
    assert [release["release_id"] for release in listed] == ["r1"]
    rolled = await daemon.owner.post("/reef/models/use", json={"name": "nothing"})
    assert rolled.status_code == 404, "another try is not blocked"


async def test_two_at_once_the_second_hears_of_the_first(daemon: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = asyncio.Event()

    class Slow(OtherEngine):
        async def start(self) -> None:
            await go_on.wait()
            await super().start()

    monkeypatch.setattr(model_switch, "make_engine", lambda config, home: Slow(home.models / config.model))
    first = asyncio.create_task(use(daemon))
    await asyncio.sleep(0.05)
    status, answer = await use(daemon)
    assert status == 409 and "is being loaded" in answer["error"]["message"]  # type: ignore[index]
    assert (await daemon.client.get("/reef/models")).json()["loading"] == "Other.gguf"
    run = await daemon.owner.post("/reef/scenarios/default/runs", json={})
    assert run.status_code == 409 and "is being loaded" in run.text
    assert (await daemon.chat("hello")).status_code == 200, "requests go on meanwhile"
    go_on.set()
    assert (await first)[0] == 200
    assert (await use(daemon))[0] == 409  # it serves already


async def test_a_daemon_that_stops_does_not_wait_for_a_model_that_loads(daemon: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    class Endless(OtherEngine):
        async def start(self) -> None:
            await asyncio.sleep(60)

    monkeypatch.setattr(model_switch, "make_engine", lambda config, home: Endless(home.models / config.model))
    asked = asyncio.create_task(use(daemon))
    await until(lambda: daemon.services.runner._held_back)
    daemon.services.stopping.set()
    status, answer = await asyncio.wait_for(asked, 5)
    assert status == 503 and "is stopping" in answer["error"]["message"]  # type: ignore[index]


async def test_a_run_under_way_is_not_cut_off(daemon: Running, made: list[Engine], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon.services.runner, "_starting", True)
    status, answer = await use(daemon)
    assert status == 409 and "is under way" in answer["error"]["message"] and made == []  # type: ignore[index]


async def test_a_model_that_has_no_room_beside_the_other_is_refused_with_the_bytes(
    daemon: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "available_bytes", lambda: 200_000_000)
    status, answer = await use(daemon, "embedded")
    message, hint = answer["error"]["message"], answer["error"]["hint"]  # type: ignore[index]
    assert status == 400 and "no room for embedded beside scripted" in message and "200000000 are free" in message
    assert "reef down" in hint and "reef models use embedded" in hint


async def test_a_model_set_where_reef_does_not_write_is_left_to_the_person(tmp_path: Path, made: list[Engine]) -> None:
    write_model(tmp_path / "models" / "Other.gguf")
    async with running(tmp_path, settings={"engine.model": "mine.gguf"}) as daemon:
        status, answer = await use(daemon)
        assert status == 409 and "command line" in answer["error"]["message"]  # type: ignore[index]
        assert made == []


async def test_every_scenario_moves_and_a_new_one_starts_on_the_new_model(daemon: Running, made: list[Engine]) -> None:
    for scenario in ("one", "two"):
        await daemon.client.post("/reef/scenarios", json={"name": scenario})
    _, answer = await use(daemon)
    assert {release["scenario"] for release in answer["releases"]} == {"default", "one", "two"}  # type: ignore[attr-defined]
    await daemon.client.post("/reef/scenarios", json={"name": "three"})
    heads = {name: daemon.services.repository.head(name) for name in daemon.services.serving.heads}
    assert {head.manifest.base.model for head in heads.values() if head is not None} == {"other"} and len(heads) == 4


async def test_the_same_weights_under_another_name_need_no_release(daemon: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_switch, "make_engine", lambda config, home: OtherEngine(home.models / config.model, "5c" * 32))
    status, answer = await use(daemon)
    assert status == 200 and answer["releases"] == []
    assert (await daemon.chat("x", model="other")).headers["x-reef-release-id"] == "r1"


async def test_a_lora_is_taken_off_and_comes_back_with_its_model(daemon: Running, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    services = daemon.services
    draft = Draft("default", Operation.TRAINING, base_facts(services.engine.model), lora_folder=lora_folder(tmp_path / "lora"), who="test")
    await services.publisher.publish(draft, "r1")
    assert (await daemon.chat("hello")).json()["choices"][0]["message"]["content"].startswith("[lora ")
    monkeypatch.setattr(model_switch, "make_engine", lambda config, home: OtherEngine(home.models / config.model))
    _, answer = await use(daemon)
    assert answer["releases"][0]["change"] == "base model scripted → other, LoRA taken off"  # type: ignore[index]
    assert (await daemon.chat("hello", model="other")).json()["choices"][0]["message"]["content"] == "Other speaks"

    back = ScriptedEngine()
    monkeypatch.setattr(model_switch, "make_engine", lambda config, home: back)
    assert (await use(daemon, "embedded"))[0] == 200
    assert (await daemon.chat("hello")).json()["choices"][0]["message"]["content"] == "echo: hello"
    rolled = await daemon.owner.post("/reef/scenarios/default/rollback", json={"release_id": "r2"})
    assert rolled.status_code == 200, rolled.text
    assert (await daemon.chat("hello")).json()["choices"][0]["message"]["content"].startswith("[lora ")
