"""Settings of clients that have no harness of ours: where they lie, what is put in, and how it is taken back."""

from __future__ import annotations

import json
import re
import stat
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.errors import Conflict, DataError, NotFound, StorageError
from daemon.files import write_atomic
from reef_cli import jsonc

if TYPE_CHECKING:
    from daemon.paths import Home
    from daemon.records import JSONObject

_MAX_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class Served:
    """What a client is told."""

    url: str  # of the client's own scenario, with `/v1`
    token: str
    model: str
    context_tokens: int
    max_tokens: int


@dataclass(frozen=True, slots=True)
class Target:
    """One client. `put(text, served)` gives the new text of its settings and what was put in; None: it keeps no settings in a file."""

    title: str
    path: Callable[[Path], Path]  # from the user's home
    put: Callable[[str, Served], tuple[str, str]] | None
    hint: str
    holds_token: bool = True
    """Its settings take the token as plain text, and nothing that points to it."""


def connect(target: Target, name: str, served: Served, user_home: Path, home: Home) -> Path:
    """Write the settings, and keep what stood there before.

    Raises:
        Conflict: it is connected already. DataError: the settings cannot be read, or hold something else in this place.
    """
    path = target.path(user_home)
    if target.put is None:
        raise NotFound(f"{target.title} keeps no settings in a file that can be written.", f"reef connect {name} --print shows them.")
    if _kept(home, name).exists():
        raise Conflict(f"{target.title} is connected already.", f"reef connect {name} --restore takes it back.")
    before = _read(path)
    try:
        after, put = target.put(before or "", served)
    except DataError as error:
        raise DataError(f"{path} is left as it is. {error.message}", f"reef connect {name} --print shows what belongs there.") from error
    path.parent.mkdir(parents=True, exist_ok=True)
    _kept(home, name).parent.mkdir(parents=True, exist_ok=True)
    mode = stat.S_IMODE(path.stat().st_mode) if before is not None else 0o600
    state = {"path": str(path), "before": before, "after": after, "put": put, "mode": mode}
    write_atomic(_kept(home, name), json.dumps(state), 0o600)
    write_atomic(path, after, mode & 0o600 if target.holds_token else mode)
    return path


def restore(target: Target, name: str, home: Home) -> Path:
    """Take the settings back: exactly what stood there, or, where more has changed since, the same without what was put in.

    Raises:
        NotFound: it is not connected. Conflict: what was put in has changed since.
    """
    kept = _kept(home, name)
    if not kept.exists():
        raise NotFound(f"{target.title} is not connected.", f"reef connect {name} connects it.")
    state = json.loads(kept.read_text(encoding="utf-8"))
    path, before, put = Path(state["path"]), state["before"], state["put"]
    now = _read(path)
    if now == state["after"] and before is None:
        path.unlink()
    elif now is not None and now != before:
        if now != state["after"] and now.count(put) != 1:
            hint = f"Remove them by hand, then remove {kept}; it holds the settings as they were."
            raise Conflict(f"Reef's settings in {path} have been changed since.", hint)
        mode = state.get("mode", 0o600) if target.holds_token else stat.S_IMODE(path.stat().st_mode)
        write_atomic(path, before if now == state["after"] else now.replace(put, ""), mode)
    kept.unlink()
    return path


def _kept(home: Home, name: str) -> Path:
    return home.root / "connected" / f"{name}.json"


def _read(path: Path) -> str | None:
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise DataError(f"{path} is a link or no file, and is left as it is.", "Add --print, and put the settings where they belong.")
    try:
        data = path.read_bytes()
        if len(data) > _MAX_BYTES:
            raise DataError(f"{path} is too large for settings.", "Add --print.")
        return data.decode()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text.", "Add --print.") from error
    except OSError as error:
        raise StorageError(f"Cannot read {path}: {error.strerror}.") from error


def _zed(text: str, served: Served) -> tuple[str, str]:
    model: JSONObject = {
        "name": served.model,
        "display_name": f"{served.model} (Reef)",
        "max_tokens": served.context_tokens,
        "max_output_tokens": served.max_tokens,
        "capabilities": {"tools": True, "images": False, "parallel_tool_calls": False, "prompt_cache_key": True},
    }
    return jsonc.with_entry(
        text or "{}\n", ("language_models", "openai_compatible", "Reef"), {"api_url": served.url, "available_models": [model]}
    )


def _vscode(text: str, served: Served) -> tuple[str, str]:
    model: JSONObject = {
        "id": served.model,
        "name": f"{served.model} (Reef)",
        "url": f"{served.url}/chat/completions",
        "toolCalling": True,
        "vision": False,
        "maxInputTokens": served.context_tokens - served.max_tokens,
        "maxOutputTokens": served.max_tokens,
    }
    entry: JSONObject = {
        "name": "Reef",
        "vendor": "customendpoint",
        "apiKey": served.token,
        "apiType": "chat-completions",
        "models": [model],
    }
    return jsonc.with_entry(text or "[]\n", (), entry)


def _continue(text: str, served: Served) -> tuple[str, str]:
    fields = {"provider": "openai", "model": served.model, "apiBase": served.url, "apiKey": served.token}
    item = "".join(f"\n    {name}: {json.dumps(value)}" for name, value in fields.items())
    options = f"defaultCompletionOptions: {{contextLength: {served.context_tokens}}}"
    item = f'  - name: "Reef"{item}\n    roles: [chat, edit, apply]\n    {options}\n'
    if not text:
        put = f"name: Local\nversion: 0.0.1\nschema: v1\nmodels:\n{item}"
        return put, put
    models = re.search(r"^models:[ \t]*\n(?=(?:[ \t]*(?:#[^\n]*)?\n)*  - )", text, re.MULTILINE)
    if models is None:
        raise DataError("It holds no list 'models' whose lines begin with two spaces and a dash.")
    return _checked(text[: models.end()] + item + text[models.end() :]), item


def _aider(text: str, served: Served) -> tuple[str, str]:
    fields = {"model": f"openai/{served.model}", "openai-api-base": served.url, "openai-api-key": served.token}
    taken = [name for name in fields if re.search(rf"^{name}\s*:", text, re.MULTILINE)]
    if taken:
        raise DataError(f"It sets {', '.join(taken)} already.")
    put = ("" if not text or text.endswith("\n") else "\n") + "".join(f"{name}: {json.dumps(value)}\n" for name, value in fields.items())
    return _checked(text + put), put


def _checked(text: str) -> str:
    import yaml

    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise DataError("It is not valid YAML.") from error
    if not isinstance(value, dict):
        raise DataError("It is not built as expected.")
    return text


def _code_folder(home: Path) -> Path:
    base = home / "Library" / "Application Support" if sys.platform == "darwin" else home / ".config"
    return base / "Code" / "User" / "chatLanguageModels.json"


TARGETS = {
    "zed": Target(
        "Zed",
        lambda home: home / ".config" / "zed" / "settings.json",
        _zed,
        "Zed takes the key from the environment: start it with REEF_API_KEY set to the text of {token}, or type that into its settings.",
        holds_token=False,
    ),
    "vscode": Target("VS Code", _code_folder, _vscode, "Choose the model in the chat's list of models (VS Code 1.122 or later)."),
    "continue": Target("Continue", lambda home: home / ".continue" / "config.yaml", _continue, "Choose Reef in Continue's list of models."),
    "aider": Target("aider", lambda home: home / ".aider.conf.yml", _aider, "A project's own .aider.conf.yml goes before it."),
    "cline": Target(
        "cline",
        lambda home: home,
        None,
        "In cline's settings choose OpenAI Compatible and type these in; the key is the text of {token}.",
        holds_token=False,
    ),
}
