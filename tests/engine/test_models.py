"""Model names find their files, and a pull is resumable, verified, and whole or absent."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from daemon.errors import BadRequest, Conflict, DataError, EngineError, NotFound, ReefError
from daemon.gguf import read_header
from daemon.model_pull import pull
from daemon.models import embedded_model, model_id, resolve_model
from daemon.paths import Home
from tests.engine.random_lora import write_random_lora

NAME = "someone/some-model-gguf/model.gguf"


class Hub(ThreadingHTTPServer):
    """Serves one file as a hub does."""

    content = b""
    promised = ""
    break_after: int | None = None
    ranges: tuple[str, ...] = ()


class _Handler(BaseHTTPRequestHandler):
    server: Hub

    def _head(self, start: int) -> None:
        self.send_response(206 if start else 200)
        self.send_header("content-length", str(len(self.server.content) - start))
        self.send_header("etag", f'"{self.server.promised}"')
        self.send_header("x-linked-etag", f'"{self.server.promised}"')
        self.send_header("x-linked-size", str(len(self.server.content)))
        self.send_header("x-repo-commit", "0" * 40)
        self.send_header("accept-ranges", "bytes")
        if start:
            self.send_header("content-range", f"bytes {start}-{len(self.server.content) - 1}/{len(self.server.content)}")
        self.end_headers()

    def _missing(self) -> bool:
        if self.path.endswith("/model.gguf"):
            return False
        self.send_response(404)
        self.send_header("x-error-code", "EntryNotFound")
        self.send_header("content-length", "0")
        self.end_headers()
        return True

    def do_HEAD(self) -> None:
        if not self._missing():
            self._head(0)

    def do_GET(self) -> None:
        if self._missing():
            return
        asked = self.headers.get("range", "")
        self.server.ranges += (asked,)
        start = int(asked.removeprefix("bytes=").split("-")[0] or 0) if asked else 0
        self._head(start)
        limit = self.server.break_after
        self.server.break_after = None
        self.wfile.write(self.server.content[start : None if limit is None else start + limit])
        if limit is not None:
            self.wfile.flush()
            self.connection.close()

    def log_message(self, format: str, *args: object) -> None: ...


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    write_random_lora(tmp_path / "source.gguf", read_header(embedded_model()), rank=1, weights=("blk.0.attn_q.weight",))
    server = Hub(("127.0.0.1", 0), _Handler)
    server.content = (tmp_path / "source.gguf").read_bytes()
    server.promised = hashlib.sha256(server.content).hexdigest()
    Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


def _pull(hub: Hub, home: Home, name: str = NAME) -> Path:
    seen: list[tuple[int, int]] = []
    path = pull(name, home, lambda done, total: seen.append((done, total)), f"http://127.0.0.1:{hub.server_port}")
    if seen:
        assert seen[-1] == (len(hub.content), len(hub.content))
    return path


def test_a_pulled_model_is_found_by_its_names(hub: Hub, home: Home) -> None:
    path = _pull(hub, home)
    assert path.read_bytes() == hub.content
    assert resolve_model(f"hf:{NAME}", home) == path == resolve_model("model", home) == resolve_model("model.gguf", home)
    assert list(home.models.glob(".incoming/*")) == []
    assert _pull(hub, home) == path  # nothing to do


def test_a_broken_download_goes_on_where_it_stopped(hub: Hub, home: Home) -> None:
    hub.content += bytes(12 << 20)
    hub.promised = hashlib.sha256(hub.content).hexdigest()
    hub.break_after = 11 << 20
    try:
        _pull(hub, home)
    except ReefError:
        _pull(hub, home)
    assert (home.models / "model.gguf").read_bytes() == hub.content
    assert any(asked.startswith("bytes=10485760") for asked in hub.ranges)


def test_without_a_network_the_sentence_says_so(home: Home) -> None:
    with pytest.raises(EngineError, match="cannot be reached"):  # nobody listens there
        pull("owner/repo/tiny.gguf", home, lambda done, total: None, endpoint="http://127.0.0.1:9")
    assert not list(home.models.glob("*.gguf"))


def test_what_is_not_as_promised_does_not_stay(hub: Hub, home: Home) -> None:
    hub.promised = "0" * 64
    with pytest.raises(DataError):
        _pull(hub, home)
    hub.content = b"no model at all" * 10
    hub.promised = hashlib.sha256(hub.content).hexdigest()
    with pytest.raises(DataError):
        _pull(hub, home)
    assert not (home.models / "model.gguf").exists()


def test_another_model_of_that_name_is_not_overwritten(hub: Hub, home: Home) -> None:
    home.models.mkdir(parents=True)
    (home.models / "model.gguf").write_bytes(b"mine")
    with pytest.raises(Conflict):
        _pull(hub, home)
    assert (home.models / "model.gguf").read_bytes() == b"mine"


def test_names_that_cannot_be_are_refused(hub: Hub, home: Home) -> None:
    for name in ("model.gguf", "a/b/../../x.gguf", "a/b/c.bin", "/a/b/c.gguf", "a/b/c-00001-of-00003.gguf"):
        with pytest.raises(BadRequest):
            _pull(hub, home, name)
    with pytest.raises(NotFound):
        _pull(hub, home, "someone/some-model-gguf/other.gguf")


def test_the_embedded_model_and_paths_resolve(home: Home, tmp_path: Path) -> None:
    assert resolve_model("embedded", home) == embedded_model()
    assert resolve_model(str(embedded_model()), home) == embedded_model()
    assert model_id("embedded", embedded_model()) == "smollm2-135m-instruct"
    with pytest.raises(NotFound) as caught:
        resolve_model("absent", home)
    assert "embedded" in caught.value.hint
    with pytest.raises(NotFound) as caught:
        resolve_model("hf:a/b/c.gguf", home)
    assert "reef models pull a/b/c.gguf" in caught.value.hint
