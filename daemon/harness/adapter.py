"""The Adapter interface: the code that knows one coding agent. Adapters live in folders of their own and are found by entry point.

An adapter imports this, its neighbours in `daemon.harness` and the ground floor, and speaks to the daemon as the agent would: over HTTP,
with the client's token. One whose agent comes from npm derives from `daemon.harness.npm_adapter.NpmAdapter` and has little left to say.

An installed agent has a folder of its own, `agents/<name>` of Reef's home: `runtime/` (the program and what runs it), `agent/` (the agent's
own configuration folder), `bin/reef-<name>` (what starts it), `installed.json` and `harness.json` (what was laid down, from which tree).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar, Final

from daemon.errors import ConfigError, DataError, NotFound
from daemon.harness_tree import HarnessTree, check_path
from daemon.records import JSONObject

ENTRY_POINT_GROUP: Final = "reef.adapters"

Present = Callable[[str], str | None]
"""The text that a path below `agent/` has now; None: it is not there."""


@dataclass(frozen=True, slots=True)
class InstallContext:
    """What an adapter is told. Paths are absolute; an adapter writes below `home` alone."""

    home: Path  # the agent's own folder, `agents/<name>` of Reef's home
    base_url: str  # of the daemon, without `/v1`
    client_token_path: Path
    model_id: str
    context_tokens: int  # the served window
    max_tokens: int  # the longest reply
    scenario: str
    tree: HarnessTree = field(default_factory=HarnessTree)
    release_id: str = ""  # of `tree`; empty before the first release


@dataclass(frozen=True, slots=True)
class Rendering:
    """A tree and the model binding as the agent's own files. Paths are relative to `agent/`, with slashes."""

    files: Mapping[str, str]
    executable: frozenset[str] = frozenset()  # paths of scripts
    shared: frozenset[str] = (
        frozenset()
    )  # paths that the agent or its user writes too: merged with what is there, never a hand edit by hash
    notes: tuple[str, ...] = ()  # what the user should know, a sentence each


@dataclass(frozen=True, slots=True)
class Detected:
    """An agent found on this machine."""

    version: str
    command: tuple[str, ...]  # how to start it
    supported: bool
    sentence: str = ""  # why not, where not


@dataclass(frozen=True, slots=True)
class Installed:
    """What `install` wrote: path relative to the context's home → sha256."""

    files: Mapping[str, str]
    version: str
    notes: tuple[str, ...] = ()  # what the user should know, a sentence each


@dataclass(frozen=True, slots=True)
class Launch:
    """How to start the agent as it was installed."""

    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)  # added to the user's
    read: Mapping[str, Path] = field(default_factory=dict)  # variables that get the first line of a file, such as the client's token


@dataclass(frozen=True, slots=True)
class HeadlessTask:
    prompt: str
    working_copy: Path
    timeout_s: float
    session: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)  # the whole of it: no secrets are inherited


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    exit_code: int
    text: str  # the agent's last answer
    timed_out: bool = False
    log: str = ""  # what it wrote to stderr, bounded
    details: JSONObject = field(default_factory=dict)


def read_variables(files: Mapping[str, Path]) -> dict[str, str]:
    """What `Launch.read` says. Raises DataError."""
    try:
        return {name: path.read_text(encoding="utf-8").split("\n", 1)[0] for name, path in files.items()}
    except (OSError, ValueError) as error:
        raise DataError(f"The client's token cannot be read: {error}.", "Start the daemon, which writes it: reef up") from error


class Adapter(ABC):
    """One coding agent. Errors: `Unsupported` (version, machine), `StorageError`, `DataError`; the old state stays intact."""

    name: ClassVar[str]  # "pi"; also the default scenario
    title: ClassVar[str]  # "pi coding agent"
    versions: ClassVar[str]  # supported range, as a sentence: "1.6 or later, below 2"
    limits: ClassVar[tuple[str, ...]] = ()  # what this agent cannot do, a sentence each
    reads: ClassVar[tuple[str, ...]]  # where the tree's files lie below `agent/`: names of files, and of folders with a slash at the end

    keeps: ClassVar[tuple[str, ...]] = ()
    """What a person would miss below `agent/`, as `reads`: an uninstall leaves it, and whatever was put where `reads` says."""

    @abstractmethod
    def render(self, context: InstallContext, present: Present) -> Rendering:
        """`context.tree` and the model binding as the agent's own files; writes nothing.

        Raises:
            Unsupported: the served model does not fit. DataError: a shared file that is there cannot be read; names it.
        """

    @abstractmethod
    def read_back(self, context: InstallContext, files: Mapping[str, str]) -> HarnessTree:
        """The tree that the agent's files now say: the inverse of `render`, for hand edits. Reads nothing but its arguments.

        What the agent has no place for is as in `context.tree`, the tree that was laid down; of shared files only what that tree sets
        is read. Always: `read_back(context, render(context, present).files) == context.tree`.

        Args:
            files: path below `agent/` → text, of everything that `reads` names.
        """

    @abstractmethod
    def withdraw(self, path: str, text: str) -> str | None:
        """What is left of the shared file `path` without ours; None: nothing."""

    @abstractmethod
    def detect(self, context: InstallContext) -> Detected | None:
        """The agent that would be used, ours first; None: not on this machine."""

    @abstractmethod
    def install(self, context: InstallContext, seen: Mapping[str, str] = MappingProxyType({})) -> Installed:
        """Install or update below `context.home`; safe to run again, needs no root, and interrupted leaves the old one working.

        Args:
            seen: path below `agent/` → text that is safe elsewhere and may be replaced where it still is what the file says, though it was
                changed by hand.

        Raises:
            Conflict: a file that would be replaced was changed by hand; names it.
        """

    def renew(self, context: InstallContext) -> Installed:
        """Tell the installed agent of the model, the window and the address of `context`; the harness stays, and what was changed by hand.

        Raises:
            Unsupported: the model does not fit. Conflict: it cannot be done without touching a change by hand.
        """
        return self.install(context)

    @abstractmethod
    def uninstall(self, context: InstallContext) -> None:
        """Leave nothing of ours."""

    @abstractmethod
    def launch(self, context: InstallContext, arguments: tuple[str, ...]) -> Launch: ...

    @abstractmethod
    def run_task(self, context: InstallContext, task: HeadlessTask) -> TaskOutcome:
        """Play one prompt without a terminal; blocks until it is over or `task.timeout_s` has passed."""


def adapter_names() -> list[str]:
    """Names of the adapters that are installed, sorted; none is imported."""
    return sorted(_points())


def adapter_package(name: str) -> str | None:
    """The package that the adapter `name` lies in, with whatever else its author put there; None: no such adapter."""
    point = _points().get(name)
    return point.module.rpartition(".")[0] or None if point is not None else None


def find_adapter(name: str) -> Adapter:
    """The adapter `name`.

    Raises:
        NotFound: no such adapter; lists those there are. ConfigError: it cannot be loaded.
    """
    point = _points().get(name)
    if point is None:
        known = ", ".join(adapter_names()) or "none"
        hint = f"Installed: {known}. Another is a package with the entry point {ENTRY_POINT_GROUP}."
        raise NotFound(f"There is no adapter named {name!r}.", hint)
    try:
        loaded = point.load()
    except Exception as error:
        raise ConfigError(f"The adapter {name!r} ({point.value}) cannot be loaded: {error}.", "Reinstall or mend it.") from error
    if not (isinstance(loaded, type) and issubclass(loaded, Adapter)):
        raise ConfigError(f"The adapter {name!r} ({point.value}) is no Adapter class.", "Derive it from daemon.harness.adapter.Adapter.")
    wrong = _wrong(name, loaded)
    if wrong:
        raise ConfigError(
            f"The adapter {name!r} ({point.value}) {wrong}.", "Tell its author; docs/adapters.md says what an adapter must do."
        )
    return loaded()


def _wrong(name: str, found: type[Adapter]) -> str:
    """What keeps an Adapter class from being used; empty: nothing."""
    if missing := sorted(found.__abstractmethods__):
        return f"does not say {', '.join(missing)}"
    said = vars(Adapter)["__annotations__"].keys()
    if absent := sorted(one for one in said if one not in {key for base in found.__mro__ for key in vars(base)}):
        return f"does not say {', '.join(absent)}"
    if found.name != name:
        return f"calls itself {found.name!r}"
    try:
        for path in (*found.reads, *found.keeps):
            check_path(path.removesuffix("/"))
    except DataError as error:
        return f"reads a path that it must not: {error.message.rstrip('.')}"
    return ""


def _points() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=ENTRY_POINT_GROUP)}
