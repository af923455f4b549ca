"""An export's lines into a file that is complete or not there."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.errors import EngineError, StorageError

if TYPE_CHECKING:
    from daemon.records import JSONObject


def to_file(lines: Iterable[bytes], out: Path, told: Callable[[int], None] = lambda written: None) -> JSONObject:
    """Write under another name until all is there; the summary that ends the export.

    Args:
        told: called with the bytes written so far.

    Raises:
        StorageError: the file cannot be written. EngineError: the daemon stopped before the end.
    """
    partial = out.with_name(f".{out.name}.part")
    written = 0
    try:
        with partial.open("wb") as stream:
            for line in lines:
                if (summary := summary_of(line)) is not None:
                    break
                stream.write(line)
                written += len(line)
                told(written)
            else:
                raise cut_short()
        partial.replace(out)
        return summary
    except OSError as error:
        raise StorageError(f"{out} cannot be written: {error.strerror}.", "Name a file that can be: --out FILE") from error
    finally:
        partial.unlink(missing_ok=True)


def summary_of(line: bytes) -> JSONObject | None:
    """The last line, which is not part of the export."""
    if not line.startswith(b'{"reef":'):
        return None
    found = json.loads(line)["reef"]
    return found if isinstance(found, dict) else None


def cut_short() -> EngineError:
    return EngineError("The export was cut short: the daemon stopped before its end.", "Run it again once it serves: reef status")
