"""The neutral harness tree: everything of an agent that is not weights, as plain text files.

Paths: `AGENTS.md` (rules), `skills/NAME/SKILL.md`, `prompts/NAME.md`, `commands/NAME.md`, `extensions/…`,
`settings.json`, and `serving.json` (the hints that the gateway applies for clients that install nothing).
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field

from daemon.errors import DataError

RULES_PATH = "AGENTS.md"
SETTINGS_PATH = "settings.json"
SERVING_HINTS_PATH = "serving.json"

MAX_FILES = 2000
MAX_FILE_BYTES = 256 * 1024
MAX_PATH_BYTES = 200


@dataclass(frozen=True, slots=True)
class HarnessTree:
    """An immutable snapshot: relative POSIX path → text."""

    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def content_id(self) -> str:
        """sha256 over paths and texts; equal trees have equal ids, whoever made them."""
        digest = hashlib.sha256()
        for path in sorted(self.files):
            text = self.files[path].encode()
            digest.update(f"{path}\0{len(text)}\0".encode() + text)
        return digest.hexdigest()

    @property
    def size_bytes(self) -> int:
        return sum(len(text.encode()) for text in self.files.values())


def check_tree(tree: HarnessTree) -> None:
    """Paths and sizes only; what the files say is checked by `daemon.harness.validate`.

    Raises:
        DataError: a path that leaves the tree or that some file system reads differently, or too much text.
    """
    if len(tree.files) > MAX_FILES:
        raise DataError(f"The harness has {len(tree.files)} files; at most {MAX_FILES} fit.", "Remove files that no agent reads.")
    folded: dict[str, str] = {}
    for path, text in tree.files.items():
        check_path(path)
        try:
            size_bytes = len(text.encode())
        except UnicodeEncodeError as error:
            line = text.count("\n", 0, error.start) + 1
            raise DataError(f"{path}:{line}: half a character is not valid UTF-8.", "Save it as UTF-8 text.") from error
        if size_bytes > MAX_FILE_BYTES:
            raise DataError(f"{path} is larger than {MAX_FILE_BYTES // 1024} KiB.", "Split it, or leave out what an agent need not read.")
        same = folded.setdefault(path.casefold(), path)
        if same != path:
            raise DataError(f"{same} and {path} differ only in case.", "Some file systems cannot hold both; rename one.")
    for path in tree.files:
        parts = path.split("/")
        for length in range(1, len(parts)):
            parent = "/".join(parts[:length])
            if parent.casefold() in folded:
                raise DataError(f"{parent} is both a file and the folder of {path}.", "Rename one of them.")


def entry_parts(entry: str) -> tuple[str, str]:
    """The file that a mutation's entry names, and the section of the rules; empty: the whole file."""
    section = entry.removeprefix(f"{RULES_PATH}#")
    return (RULES_PATH, section) if section not in ("", entry) else (entry, "")


def check_path(path: str) -> None:
    """Raises DataError unless `path` is a plain relative POSIX path inside the tree."""
    parts = path.split("/")
    reason = ""
    if not path or len(path.encode(errors="surrogatepass")) > MAX_PATH_BYTES:
        reason = f"is empty or longer than {MAX_PATH_BYTES} bytes"
    elif path.startswith("/") or "\\" in path or ":" in path:
        reason = "is absolute, or holds a backslash or a colon"
    elif any(part in ("", ".", "..") for part in parts):
        reason = "has an empty, `.` or `..` part"
    elif any(part.casefold() in (".git", ".gitattributes", ".gitmodules", ".lfsconfig") for part in parts):
        reason = "is a name that git itself reads"
    elif "#" in path and path.partition("#")[0].endswith(".md"):
        reason = f"reads as a section, and only {RULES_PATH} has sections"
    elif not (path.isascii() and path.isprintable()) and any(
        unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp") for character in path
    ):
        reason = "holds control or invisible characters"
    elif unicodedata.normalize("NFC", path) != path:
        reason = "is not in Unicode's composed form (NFC)"
    if reason:
        raise DataError(f"The harness path {path!r} {reason}.", "Use a relative path such as skills/NAME/SKILL.md.")
