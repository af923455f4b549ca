"""`reef connect`: a client's own settings get an entry and nothing else changes, and it goes out again exactly."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import yaml

from daemon.errors import Conflict, DataError, NotFound
from daemon.paths import Home
from reef_cli import connecting, jsonc
from reef_cli.connecting import TARGETS, Served

SERVED = Served("http://127.0.0.1:8900/reef/scenarios/x/v1", "secret", "tiny", 8192, 2048)
ZED = """// my settings
{
  "theme": "One Dark", // "not": {this}
  "language_models": {
    /* a comment, with { */
    "ollama": {"api_url": "http://there//here"},
  },
}
"""
CONTINUE = """name: Mine # a comment
version: 1.0.0
schema: v1
models:
  - name: other
    provider: ollama
    model: x
"""


def place(tmp_path: Path, name: str, text: str | None) -> Path:
    path = TARGETS[name].path(tmp_path)
    if text is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *(("zed", text) for text in (ZED, "{}", '{\n  "a": 1\n}\n', None)),
        *(("vscode", text) for text in ("[]", '[ // mine\n  {"name": "other"},\n]\n', None)),
        *(("continue", text) for text in (CONTINUE, None)),
        *(("aider", text) for text in ("dark-mode: true # yes", None)),
    ],
)
def test_settings_come_in_and_go_out_exactly(name: str, text: str | None, tmp_path: Path) -> None:
    path, home = place(tmp_path, name, text), Home(tmp_path / "reef")
    assert connecting.connect(TARGETS[name], name, SERVED, tmp_path, home) == path
    after = path.read_text()
    said = yaml.safe_load(after) if name in ("continue", "aider") else jsonc.parse(after)
    assert "127.0.0.1:8900" in json.dumps(said) and "tiny" in json.dumps(said)
    for line in (text or "").splitlines():
        assert line.strip("{}[]") in after, "what a person wrote is still there"
    with pytest.raises(Conflict):
        connecting.connect(TARGETS[name], name, SERVED, tmp_path, home)
    assert path.read_text() == after
    connecting.restore(TARGETS[name], name, home)
    assert (path.read_text() if path.exists() else None) == text
    with pytest.raises(NotFound):
        connecting.restore(TARGETS[name], name, home)


def test_zed_gets_the_model_where_it_looks(tmp_path: Path) -> None:
    path = place(tmp_path, "zed", ZED)
    connecting.connect(TARGETS["zed"], "zed", SERVED, tmp_path, Home(tmp_path / "reef"))
    said = jsonc.parse(path.read_text())
    models = said["language_models"]  # type: ignore[index, call-overload]
    assert list(models) == ["openai_compatible", "ollama"]  # type: ignore[arg-type]
    assert models["openai_compatible"]["Reef"]["api_url"] == SERVED.url  # type: ignore[index, call-overload]
    assert "secret" not in path.read_text()


@pytest.mark.parametrize(("name", "text"), [("vscode", "[]"), ("continue", CONTINUE), ("aider", "dark-mode: true\n")])
def test_a_file_that_holds_the_token_is_its_owners_alone_until_it_holds_it_no_more(name: str, text: str, tmp_path: Path) -> None:
    path, home = place(tmp_path, name, text), Home(tmp_path / "reef")
    path.chmod(0o644)
    connecting.connect(TARGETS[name], name, SERVED, tmp_path, home)
    assert "secret" in path.read_text() and path.stat().st_mode & 0o777 == 0o600
    connecting.restore(TARGETS[name], name, home)
    assert path.read_text() == text and path.stat().st_mode & 0o777 == 0o644


def test_what_was_changed_since_stays_changed(tmp_path: Path) -> None:
    path, home = place(tmp_path, "zed", ZED), Home(tmp_path / "reef")
    connecting.connect(TARGETS["zed"], "zed", SERVED, tmp_path, home)
    path.write_text(path.read_text().replace("One Dark", "Light"))
    connecting.restore(TARGETS["zed"], "zed", home)
    assert path.read_text() == ZED.replace("One Dark", "Light")
    connecting.connect(TARGETS["zed"], "zed", SERVED, tmp_path, home)
    path.write_text(changed := path.read_text().replace("tiny", "another"))
    with pytest.raises(Conflict, match="changed since"):
        connecting.restore(TARGETS["zed"], "zed", home)
    assert path.read_text() == changed


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *(("zed", text) for text in ("{", "[1]", '{"language_models": 7}', '{"language_models": {"openai_compatible": {"Reef": 1}}}')),
        ("vscode", "{}"),
        *(("continue", text) for text in ("models: [", "models: []\n", "name: x\n")),
        *(("aider", text) for text in ("model: mine\n", "a: [", "- a\n")),
    ],
)
def test_what_cannot_be_read_is_left(name: str, text: str, tmp_path: Path) -> None:
    path, home = place(tmp_path, name, text), Home(tmp_path / "reef")
    with pytest.raises(DataError):
        connecting.connect(TARGETS[name], name, SERVED, tmp_path, home)
    assert path.read_text() == text and not (tmp_path / "reef").exists()


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    path = place(tmp_path, "aider", None)
    (tmp_path / "elsewhere").write_text("dark-mode: true\n")
    os.symlink(tmp_path / "elsewhere", path)
    with pytest.raises(DataError, match="link"):
        connecting.connect(TARGETS["aider"], "aider", SERVED, tmp_path, Home(tmp_path / "reef"))
    assert (tmp_path / "elsewhere").read_text() == "dark-mode: true\n"
