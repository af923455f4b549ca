"""`reef models use` on the real engine: while a stream runs, killed at every point, and with files that go away."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from daemon.config import LlamaConfig
from daemon.config_load import load
from daemon.failpoints import SWITCH_FAILPOINTS
from daemon.models import embedded_model
from tests.e2e.faults.scene import add_lora_release, check_promises
from tests.e2e.reef_home import ReefHome

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

WORKER = "daemon.engine.llama.worker"
OLD, NEW = "smollm2-135m-instruct", "another"


def add_another_model(reef: ReefHome, name: str = "Another.gguf") -> Path:
    """The embedded model's weights under another name: another sha256, so another base model."""
    path = reef.home.models / name
    path.parent.mkdir(parents=True, exist_ok=True)
    content = embedded_model().read_bytes()
    assert content.count(b"Smollm2 135M") == 1
    path.write_bytes(content.replace(b"Smollm2 135M", b"Another 135M"))
    return path


def until(condition: Callable[[], object], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("what the test waits for did not happen")
        time.sleep(0.02)


def chosen(reef: ReefHome) -> str:
    engine = load(reef.home, None, {}, {}).config.engine
    assert isinstance(engine, LlamaConfig)
    return engine.model


def lora_of(reef: ReefHome) -> object:
    [scenario] = reef.get("/reef/status")["scenarios"]
    return scenario["lora"]


def whole_stream(reef: ReefHome, began: threading.Event) -> str:
    """A long streamed reply, to its end."""
    body = {
        "model": OLD,
        "stream": True,
        "max_tokens": 160,
        "temperature": 0,
        "messages": [{"role": "user", "content": "Tell a long story."}],
    }
    headers = {"authorization": f"Bearer {reef.token('client')}"}
    text, ended = "", False
    with httpx.stream("POST", f"{reef.url}/v1/chat/completions", json=body, headers=headers, timeout=120, trust_env=False) as stream:
        for line in stream.iter_lines():
            ended = ended or line == "data: [DONE]"
            for choice in json.loads(line[6:])["choices"] if line.startswith("data: {") else ():
                text += choice["delta"].get("content") or ""
            if len(text) > 10:
                began.set()
    assert ended
    return text


def test_a_stream_ends_on_its_model_while_another_takes_over_and_both_are_remembered(tmp_path: Path) -> None:
    with ReefHome(tmp_path / "home") as reef:
        add_another_model(reef)
        reef.start()
        receipt = reef.ask("Hello?").receipt
        alone = whole_stream(reef, threading.Event())
        [worker] = reef.children(WORKER)
        began, texts = threading.Event(), list[str]()
        thread = threading.Thread(target=lambda: texts.append(whole_stream(reef, began)))
        thread.start()
        assert began.wait(60)
        done = reef.cli("models", "use", "another")
        assert done.returncode == 0, done.stderr
        assert "base model smollm2-135m-instruct → another" in done.stdout
        reef.model = NEW
        assert reef.ask("Hello?").release == "r2"
        thread.join(120)
        assert texts == [alone], "the stream under way was cut off or changed"
        until(lambda: not worker.is_running(), 20)
        assert len(reef.children(WORKER)) == 1
        assert chosen(reef) == "Another.gguf"
        told = [
            {"role": "user", "content": "Tell a long story."},
            {"role": "assistant", "content": alone},
            {"role": "user", "content": "Go on."},
        ]
        going_on = reef.request("POST", "/v1/chat/completions", {"model": NEW, "messages": told, "max_tokens": 4}, who="client")
        assert going_on.json()["reef"]["cache_miss"] == "template changed"
        assert reef.get("/reef/status")["warnings"] == []
        listed = {model["name"]: model for model in reef.get("/reef/models")["models"]}
        assert listed["Another.gguf"]["serves"] and not listed["embedded"]["serves"]
        refused = reef.request("POST", "/reef/scenarios/default/rollback", {"release_id": "r1"})
        assert refused.status_code == 409 and "base missing" in refused.text
        reef.stop()
        reef.start()
        assert reef.model == NEW
        check_promises(reef, [receipt], {"r2"})


def test_killed_at_each_point_the_old_or_the_new_model_serves_whole(tmp_path: Path) -> None:
    with ReefHome(tmp_path / "home") as reef:
        add_another_model(reef)
        reef.start()
        receipts = [reef.ask("What is a model?").receipt]
        reef.stop()
        head = add_lora_release(reef)
        reef.start()
        lora, with_lora = lora_of(reef), reef.ask("Tell me about rivers.", max_tokens=32).text
        assert lora
        reef.stop()
        for point in SWITCH_FAILPOINTS:
            reef.start(env={"REEF_FAILPOINT": point})
            assert (reef.model, lora_of(reef)) == (OLD, lora)
            with pytest.raises(httpx.HTTPError):
                reef.request("POST", "/reef/models/use", {"name": "another"})
            assert reef.wait_dead() == -9
            reef.start()
            after = point in SWITCH_FAILPOINTS[2:]
            assert reef.model == (NEW if after else OLD), point
            assert chosen(reef) == ("Another.gguf" if after else load(reef.home, None, {}, {}).config.engine.model)
            listed = [str(release["release_id"]) for release in reef.releases()]
            standing = check_promises(reef, receipts, {listed[0] if after else head})
            assert lora_of(reef) == (None if after else lora), "a LoRA must not serve on weights that it was not made for"
            base = reef.get(f"/reef/scenarios/default/releases/{standing}")["base"]
            assert base["model"] == reef.model and base["file"] == (reef.home.models / "Another.gguf" if after else embedded_model()).name
            text = reef.ask("Tell me about rivers.", max_tokens=32).text
            assert (text == with_lora) is not after
            if after:  # back, with the LoRA again
                assert reef.request("POST", "/reef/models/use", {"name": "embedded"}).status_code == 200
                head = str(reef.post("/reef/scenarios/default/rollback", {"release_id": head})["release_id"])
            reef.stop()


def test_a_model_that_breaks_while_it_loads_changes_nothing(tmp_path: Path) -> None:
    with ReefHome(tmp_path / "home") as reef:
        path = add_another_model(reef)
        whole = path.read_bytes()
        reef.start()
        before = reef.home.config.read_text()
        with path.open("r+b") as stream:  # the header is in order, the file ends early
            stream.truncate(len(whole) // 2)
        refused = reef.request("POST", "/reef/models/use", {"name": "another"})
        assert refused.status_code == 422 and "cut short" in refused.text
        path.write_bytes(whole.replace(b"tokenizer.ggml.tokens", b"tokenizer.ggml.tokenz"))  # llama.cpp cannot read it
        refused = reef.request("POST", "/reef/models/use", {"name": "another"})
        assert refused.status_code == 422 and "cannot load" in refused.text
        assert len(reef.children(WORKER)) == 1 and reef.home.config.read_text() == before
        assert reef.ask("Still there?").release == "r1"
        path.write_bytes(whole)
        assert reef.request("POST", "/reef/models/use", {"name": "another"}).status_code == 200


def test_the_worker_killed_while_it_loads_is_no_reason_to_wait(tmp_path: Path) -> None:
    with ReefHome(tmp_path / "home") as reef:
        add_another_model(reef)
        reef.start()
        [old] = reef.children(WORKER)
        answers: list[httpx.Response] = []
        thread = threading.Thread(target=lambda: answers.append(reef.request("POST", "/reef/models/use", {"name": "another"})))
        thread.start()
        until(lambda: len(reef.children(WORKER)) == 2)
        next(process for process in reef.children(WORKER) if process.pid != old.pid).kill()
        thread.join(30)
        assert answers and answers[0].status_code == 503, answers
        assert reef.ask("Still there?").release == "r1"
        assert reef.request("POST", "/reef/models/use", {"name": "another"}).status_code == 200


def test_a_model_s_file_deleted_while_it_serves_is_a_sentence_and_another_can_take_over(tmp_path: Path) -> None:
    with ReefHome(tmp_path / "home") as reef:
        path = add_another_model(reef)
        reef.start()
        assert reef.request("POST", "/reef/models/use", {"name": "another"}).status_code == 200
        reef.model = NEW
        until(lambda: len(reef.children(WORKER)) == 1)
        shutil.move(path, tmp_path / "elsewhere.gguf")
        reef.children(WORKER)[0].kill()
        until(
            lambda: (
                reef.get("/reef/status")["engine"]["state"] == "restarting" and "is gone" in reef.get("/reef/status")["engine"]["detail"]
            )
        )
        failed = reef.request("POST", "/v1/chat/completions", {"model": NEW, "messages": [{"role": "user", "content": "x"}]}, timeout=60)
        assert failed.status_code == 503 and "is gone" in failed.text and int(failed.headers["retry-after"]) >= 1
        assert reef.request("POST", "/reef/models/use", {"name": "embedded"}).status_code == 200
        reef.model = OLD
        assert reef.ask("Still there?").release == "r3"
