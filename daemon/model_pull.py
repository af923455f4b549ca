"""Download a model from a hub: resumable, verified by its sha256 and its header, then moved into the home's models."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

from daemon.errors import BadRequest, Conflict, DataError, EngineError, NotFound, StorageError
from daemon.files import fsync_folder, sha256_file
from daemon.gguf import read_header
from daemon.paths import Home

_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_SEVERAL = re.compile(r"-\d{5}-of-(?!00001)\d{5}\.gguf$")
_SHA256 = re.compile(r"[0-9a-f]{64}")


def pull(name: str, home: Home, progress: Callable[[int, int], None], endpoint: str | None = None) -> Path:
    """Fetch `owner/repo/file.gguf` (or `hf:` and that) unless it is there; blocks, so call it in a thread.

    Args:
        progress: called with bytes done and bytes in all (0: not known), from the start of a resumed download on.
        endpoint: another hub's URL; no stored access token is sent there.

    Returns:
        The file in `home.models`.

    Raises:
        BadRequest: the name is none of a GGUF file on a hub.
        NotFound: the hub has no such file, or it needs a licence to be accepted first.
        EngineError: the connection broke; what has come stays, and pulling again goes on from there.
        DataError: what came is not what the hub promised, or no GGUF file.
        Conflict: another model of this file name is there.
        StorageError: the disk is full or cannot be written.
    """
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    from httpx import TransportError
    from huggingface_hub import get_hf_file_metadata, hf_hub_download, hf_hub_url
    from huggingface_hub.errors import EntryNotFoundError, HfHubHTTPError, RepositoryNotFoundError
    from tqdm import tqdm  # type: ignore[import-untyped]

    repository, file = split_name(name)
    target = home.models / Path(file).name
    staging = home.models / ".incoming" / repository.replace("/", "--")
    token = False if endpoint else None

    class Bar(tqdm):  # type: ignore[misc]
        """Passes the bar's counts on instead of drawing it."""

        def update(self, n: float | None = 1) -> bool | None:
            self.n += n or 0
            progress(int(self.n), int(self.total or 0))
            return None

        def display(self, msg: str | None = None, pos: int | None = None) -> bool:
            return True

    try:
        url = hf_hub_url(repository, file, endpoint=endpoint)
        promised = get_hf_file_metadata(url, token=token)
        sha256 = promised.etag if promised.etag and _SHA256.fullmatch(promised.etag) else None
        if target.exists():
            if sha256 is None or sha256_file(target) == sha256:
                return target
            raise Conflict(f"{target} is another model of the same name.", "Rename it, then pull again.")
        staging.mkdir(parents=True, exist_ok=True)
        came = Path(hf_hub_download(repository, file, local_dir=staging, endpoint=endpoint, token=token, tqdm_class=Bar))
    except (RepositoryNotFoundError, EntryNotFoundError) as error:
        raise NotFound(f"The hub has no file {name}.", "Check owner, repository and file name; a gated one needs a login.") from error
    except HfHubHTTPError as error:
        raise EngineError("The hub refused the download.", "Try again later; what has come is kept.") from error
    except TransportError as error:  # no network, no such host, a timeout
        hint = "See to the network, then pull again: it goes on where it stopped."
        raise EngineError(f"The hub cannot be reached: {error}.", hint) from error
    except OSError as error:
        if error.errno is not None and not isinstance(error, ConnectionError):
            raise StorageError(f"The model cannot be stored: {error.strerror}.", "Free disk space, then pull again.") from error
        raise EngineError("The connection to the hub broke.", "Pull again: it goes on where it stopped.") from error
    _verify(came, sha256)
    os.replace(came, target)
    fsync_folder(home.models)
    shutil.rmtree(staging, ignore_errors=True)
    return target


def _verify(came: Path, sha256: str | None) -> None:
    try:
        if sha256 is not None and sha256_file(came) != sha256:
            raise DataError("The downloaded file differs from what the hub promised.", "Pull again.")
        read_header(came)
    except DataError:
        came.unlink(missing_ok=True)
        raise


def split_name(name: str) -> tuple[str, str]:
    """`hf:owner/repo/folder/file.gguf` → `owner/repo`, `folder/file.gguf`.

    Raises:
        BadRequest: it names no GGUF file on a hub, or only a part of one.
    """
    parts = name.removeprefix("hf:").split("/")
    if len(parts) < 3 or not parts[-1].endswith(".gguf") or not all(_PART.fullmatch(part) for part in parts):
        raise BadRequest(f"{name} does not name a GGUF file on a hub.", "Write owner/repository/file.gguf.")
    if _SEVERAL.search(parts[-1]):
        hint = "Choose a file that is whole; or download all parts and join them: llama-gguf-split --merge FIRST WHOLE"
        raise BadRequest(f"{parts[-1]} is one part of a model that is split over several files.", hint)
    return "/".join(parts[:2]), "/".join(parts[2:])
