"""What an installed agent's folder says about itself: `installed.json`, and `harness.json` with the tree that was laid down."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from daemon.errors import DataError
from daemon.harness_tree import HarnessTree

MANIFEST: Final = "installed.json"
TREE: Final = "harness.json"


class Binding(BaseModel):
    """Which model the agent was told of. Another one served means: lay the agent's files down again."""

    model_config = ConfigDict(frozen=True)

    base_url: str
    scenario: str
    model_id: str
    context_tokens: int
    max_tokens: int


class Manifest(BaseModel):
    """Paths are relative to the agent's folder, with slashes."""

    model_config = ConfigDict(frozen=True)

    format: Literal[1] = 1
    adapter: str
    version: str
    """Of the agent."""
    command: tuple[str, ...]
    """How the agent itself is started."""
    release_id: str
    content_id: str
    """Of the tree in `harness.json`."""
    binding: Binding
    files: dict[str, str] = {}
    """Path → sha256 of everything that was written."""
    shared: tuple[str, ...] = ()
    """Those of `files` that the agent or its user writes too."""
    links: tuple[str, ...] = ()
    """Absolute paths of links to the launcher."""


def read_manifest(home: Path) -> Manifest | None:
    """None: nothing is installed here.

    Raises:
        DataError: the file is there and says nothing that this version understands.
    """
    path = home / MANIFEST
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise DataError(f"Cannot read {path}: {error}.", _AGAIN) from error
    try:
        return Manifest.model_validate_json(text)
    except ValidationError as error:
        where = ".".join(str(part) for part in error.errors()[0]["loc"])
        raise DataError(f"{path} is not what an installation writes{f' ({where})' if where else ''}.", _AGAIN) from error


def read_tree(home: Path) -> HarnessTree:
    """The tree that was laid down. Raises DataError."""
    path = home / TREE
    try:
        files = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return HarnessTree()
    except (OSError, ValueError) as error:
        raise DataError(f"Cannot read {path}: {error}.", _AGAIN) from error
    if not isinstance(files, dict) or not all(isinstance(text, str) for text in files.values()):
        raise DataError(f"{path} holds no files of a harness.", _AGAIN)
    return HarnessTree(files)


def write_tree(tree: HarnessTree) -> str:
    return json.dumps(dict(sorted(tree.files.items())), ensure_ascii=False, indent=1) + "\n"


_AGAIN = "Move the file away, then run `reef install` again."
