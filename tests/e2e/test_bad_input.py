"""What people get wrong, and machines: each time a clear sentence with a hint, serving undisturbed, nothing lost."""

from __future__ import annotations

import resource
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tests.e2e.faults.scene import add_lora_release, check_promises, quick_recipes
from tests.e2e.reef_home import MANUAL, ReefHome

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def reef(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReefHome]:
    """One daemon for all tests that must leave it undisturbed."""
    folder = tmp_path_factory.mktemp("bad-input")
    serve = quick_recipes(folder / "mine", "Raises")
    with ReefHome(folder / "home") as running:
        running.start("-c", str(serve))
        yield running


@pytest.fixture(autouse=True)
def undisturbed(request: pytest.FixtureRequest) -> Iterator[None]:
    """After each mistake the daemon of the module answers as before."""
    yield
    if "reef" in request.fixturenames:
        running: ReefHome = request.getfixturevalue("reef")
        assert running.ask("Are you well?").release == "r1"


def chat(reef: ReefHome, token: str | None, **changed: Any) -> httpx.Response:
    body = {"model": reef.model, "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4, **changed}
    headers = {"authorization": f"Bearer {token}"} if token is not None else {}
    return reef.http.post(f"{reef.url}/v1/chat/completions", json=body, headers=headers)


def says(response: httpx.Response, status: int, *words: str) -> None:
    """The status, an error object with a sentence, and the words in sentence or hint."""
    assert response.status_code == status, response.text
    error = response.json()["error"]
    text = f"{error['message']} {error.get('hint', '')}"
    assert error["message"].rstrip().endswith((".", "!", "?")) or error.get("hint"), error
    for word in words:
        assert word.lower() in text.lower(), text


def ends_with(done: Any, *words: str) -> None:
    """A command's exit code 1 and its sentence, without a traceback."""
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    for word in words:
        assert word.lower() in done.stderr.lower(), done.stderr


@pytest.mark.parametrize("token", [None, "wrong", "rf_client_0000000000000000000000000000000000000000000000"])
def test_a_wrong_or_missing_token(reef: ReefHome, token: str | None) -> None:
    says(chat(reef, token), 401, "token")


def test_the_clients_token_on_the_owners_routes(reef: ReefHome) -> None:
    for path, body in (("rollback", {"release_id": "r1"}), ("undo", {}), ("promote", {"release_id": "r1"}), ("runs", {})):
        says(reef.request("POST", f"/reef/scenarios/default/{path}", body, who="client"), 403, "owner")


def test_an_unknown_model_is_told_which_one_is_served(reef: ReefHome) -> None:
    says(chat(reef, reef.token("client"), model="gpt-17"), 404, "gpt-17", reef.model)


@pytest.mark.parametrize("body", [b"{", b"", b"[1, 2]", b"\xff\xfe", b'{"model": 1}', b"[" * 100_000])
def test_malformed_json(reef: ReefHome, body: bytes) -> None:
    headers = {"authorization": f"Bearer {reef.token('client')}", "content-type": "application/json"}
    for path in ("/v1/chat/completions", "/reef/report"):
        response = reef.http.post(reef.url + path, content=body, headers=headers)
        says(response, 400)


def test_a_bad_value_is_named(reef: ReefHome) -> None:
    says(chat(reef, reef.token("client"), temperature="warm"), 400, "temperature")
    says(chat(reef, reef.token("client"), messages=[]), 400, "messages")


def test_a_prompt_that_does_not_fit_is_never_cut(reef: ReefHome) -> None:
    response = chat(reef, reef.token("client"), messages=[{"role": "user", "content": "far too long " * 9000}])
    says(response, 400, "maximum context length is")
    assert response.json()["error"]["code"] == "context_length_exceeded"


def test_feedback_on_a_receipt_that_was_never_given_out(reef: ReefHome) -> None:
    says(reef.request("POST", "/reef/report", {"references": ["rec_nothing"], "score": 1}, who="client"), 400, "rec_nothing")


def test_a_release_that_is_not_there_and_a_rollback_that_changes_nothing(reef: ReefHome) -> None:
    says(reef.request("POST", "/reef/scenarios/default/rollback", {"release_id": "r99"}), 404, "r99")
    says(reef.request("POST", "/reef/scenarios/default/rollback", {"release_id": "r1"}), 409, "nothing would change")
    says(reef.request("POST", "/reef/scenarios/default/rollback", {"release_id": "r1", "expected_head": "r7"}), 409, "r1")


def failed(reef: ReefHome, body: dict[str, Any]) -> str:
    """Start a run that cannot succeed; the sentence, whether it was refused at once or failed in its process."""
    response = reef.request("POST", "/reef/scenarios/default/runs", body)
    if response.status_code >= 400:
        assert response.status_code in (400, 404, 422), response.text
        error = response.json()["error"]
        return f"{error['message']} {error['hint']}"
    started = response.json()
    run = reef.wait_run(str(started.get("run_id") or started["id"]), seconds=60)
    assert run["status"] == "failed", run
    return str(run["error"])


def test_an_unknown_recipe_or_setting_is_told_the_nearest_name(reef: ReefHome) -> None:
    reef.ask("Something to learn from.")
    assert "'sft'" in failed(reef, {"recipe": "stf"})
    assert "no_such_module" in failed(reef, {"recipe": "no_such_module.recipe:Recipe"})
    assert "batch_size" in failed(reef, {"recipe": "sft", "settings": {"batch_siez": 3}})


def test_a_recipe_that_raises(reef: ReefHome) -> None:
    reef.ask("Something to learn from.")
    assert "the recipe's own mistake" in failed(reef, {})


@pytest.mark.parametrize("recipe", ["Slow", "Blocks"])
def test_a_recipe_that_hangs_or_blocks_holds_nobody_up_and_can_be_ended(reef: ReefHome, recipe: str) -> None:
    reef.ask("Something to learn from.")
    run = reef.start_run(f"fault_recipes:{recipe}")
    time.sleep(3)
    says(reef.request("POST", "/reef/scenarios/default/runs", {}), 409, "under way")
    for _ in range(3):
        began = time.monotonic()
        reef.ask("Quickly, please.", max_tokens=2)
        assert time.monotonic() - began < 5
    assert reef.request("DELETE", f"/reef/scenarios/default/runs/{run}").status_code == 200
    assert reef.wait_run(run, seconds=20)["status"] == "cancelled"


def test_a_gguf_that_is_none(tmp_path: Path) -> None:
    for name, content in (("text.gguf", b"This is no model."), ("cut.gguf", b"GGUF\x03\x00\x00\x00" + b"\xff" * 16), ("empty.gguf", b"")):
        path = tmp_path / name
        path.write_bytes(content)
        with ReefHome(tmp_path / f"home-{name}", f"server: {{port: 0}}\nengine: {{model: {path}}}\n") as reef:
            ends_with(reef.cli("serve"), name)


def test_a_port_in_use(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with ReefHome(tmp_path / "home", f"server: {{port: {port}}}\n") as reef:
            ends_with(reef.cli("serve"), str(port))


def test_a_home_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with ReefHome(tmp_path / "good") as reef:
        reef.root = tmp_path / "file" / "home"
        ends_with(reef.cli("init", "--yes"), str(tmp_path / "file"))
        ends_with(reef.cli("serve"), str(tmp_path / "file"))


@pytest.mark.parametrize(
    ("serve", "words"),
    [
        ("reef:\n  recipe: sft\nserver:\n  prot: 8900\n", ("serve.yaml:4", "port")),
        ("reef: {recipe: sft}\nreef: {recipe: demos}\n", ("serve.yaml:2",)),
        ("learn:\n  idle_s: soon\n", ("serve.yaml:2", "idle_s")),
        ("{\n", ("serve.yaml",)),
    ],
)
def test_a_serve_yaml_that_does_not_hold_is_refused_with_its_line(tmp_path: Path, serve: str, words: tuple[str, ...]) -> None:
    (tmp_path / "serve.yaml").write_text(serve)
    with ReefHome(tmp_path / "home", MANUAL) as reef:
        ends_with(reef.cli("serve", "-c", str(tmp_path / "serve.yaml")), *words)


def test_a_disk_that_is_full_while_publishing(tmp_path: Path) -> None:
    with ReefHome(tmp_path / "home") as reef:
        reef.start()
        receipts = [reef.ask("Before.").receipt]
        reef.stop()
        with_lora = add_lora_release(reef)
        reef.start()
        before = reef.ask("Tell me about rivers.", max_tokens=16)
        receipts.append(before.receipt)
        daemon = psutil.Process(reef.pid)
        daemon.rlimit(psutil.RLIMIT_FSIZE, (64, resource.RLIM_INFINITY))  # every write past 64 bytes of a file fails
        response = reef.request("POST", "/reef/scenarios/default/rollback", {"release_id": "r1", "expected_head": with_lora})
        says(response, 507)
        daemon.rlimit(psutil.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        again = reef.ask("Tell me about rivers.", max_tokens=16)
        assert (again.text, again.release) == (before.text, with_lora), "what served must go on serving"
        receipts.append(again.receipt)
        done = reef.request("POST", "/reef/scenarios/default/rollback", {"release_id": "r1", "expected_head": with_lora})
        assert done.status_code == 200, done.text
        check_promises(reef, receipts, {reef.head()})
