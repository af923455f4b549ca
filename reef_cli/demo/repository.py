"""The demo's workload from the history of a git repository of the user's: what changed → the subject that was written.

Read as `reef import --git` reads it, without running anything that the repository configures. The form to learn is the one that
most of the subjects share.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from daemon.errors import DataError
from daemon.importing import git_history
from reef_cli.demo.workload import Correction, Workload

_CORRECTIONS, _HELD_OUT, _HELD_IN, _SEALED = 8, 24, 12, 4
_FEWEST = _CORRECTIONS + 20 + 4
_COMMITS_READ = 800  # merges among them
_DIFF_LINES = 6
_LINE_CHARACTERS = 100
_FILES_SHOWN = 6
_COMMON = 0.8
"""A trait that this share of the subjects has counts as the form of all."""

_CONVENTIONAL = r"(?:feat|fix|docs|style|refactor|perf|test|build|ci|chore|revert)(?:\([^)\n]{1,40}\))?!?: \S"
_AREA = r"[\w./*{},-]{2,40}: \S"
_MOST_FILES = 30


@dataclass(frozen=True, slots=True)
class Commit:
    subject: str
    change: str  # files with their added and removed lines, then a few changed lines


def workload_of(repository: Path, shipped: Workload) -> Workload:
    """Build a workload from the newest commits; the unrelated prompts are the shipped ones.

    Raises:
        DataError: no repository, a damaged one, or too short a history.
    """
    commits = read_commits(repository)
    if len(commits) < _FEWEST:
        raise DataError(
            f"{repository} has {len(commits)} usable commits (one parent, a subject of its own, text files); the demo needs {_FEWEST}."
        )
    pattern, name = form_of([commit.subject for commit in commits])
    matching = [commit for commit in commits if re.search(pattern, commit.subject)]
    if len(matching) < _CORRECTIONS:
        raise DataError(f"Fewer than {_CORRECTIONS} subjects of {repository} share a form ({name}); there is nothing to learn from.")
    taught = matching[:_CORRECTIONS]
    rest = [commit for commit in commits if commit not in taught]
    random.Random(0).shuffle(rest)
    prompts = [_prompt(commit) for commit in rest]
    held_out = prompts[:_HELD_OUT]
    held_in = prompts[_HELD_OUT : _HELD_OUT + _HELD_IN]
    sealed = prompts[_HELD_OUT + _HELD_IN : _HELD_OUT + _HELD_IN + _SEALED]
    if len(held_in) < 4:
        held_out, held_in, sealed = prompts[:20], prompts[20:], []
    return replace(
        shipped,
        source=f"the newest {len(commits)} commits of {repository}; the form: {name}",
        corrections=tuple(Correction(_prompt(commit), commit.subject) for commit in taught),
        held_in=tuple(held_in),
        held_out=tuple(held_out),
        sealed=tuple(sealed),
        pattern=pattern,
    )


def form_of(subjects: list[str]) -> tuple[str, str]:
    """A pattern that most subjects match and prose does not, and its name in words."""

    def share(pattern: str) -> float:
        return sum(re.search(pattern, subject) is not None for subject in subjects) / len(subjects)

    lengths = sorted(len(subject) for subject in subjects)
    longest = max(50, lengths[int(len(lengths) * 0.95)])
    ending, ending_name = (r"(?<!\.)", ", no full stop") if share(r"[^.]\Z") >= _COMMON else ("", "")
    forms = ((_CONVENTIONAL, "type(scope): text"), (_AREA, "area: text"), ("[A-Z]", "a capital first"), ("[a-z]", "lower case first"))
    start, name = next((form for form in forms if share(rf"\A{form[0]}") >= _COMMON), (r"\S", "anything"))
    return rf"\A(?={start})[^\n]{{8,{longest}}}{ending}\s*\Z", f"{name}, one line of at most {longest} characters{ending_name}"


def read_commits(repository: Path) -> list[Commit]:
    """The newest commits with one parent, newest first; a subject that occurs twice counts once."""
    commits: list[Commit] = []
    seen: set[str] = set()
    for pair in reversed(list(git_history.read_commits(repository, _COMMITS_READ))):
        change = summarise(pair.files)
        if change and 8 <= len(pair.subject) <= 120 and pair.subject.lower() not in seen:
            seen.add(pair.subject.lower())
            commits.append(Commit(pair.subject, change))
    return commits


def summarise(files: Sequence[git_history.FileChange]) -> str:
    """Files with counts, then the first changed lines; empty for a change of too many files."""
    if len(files) > _MOST_FILES:
        return ""
    names = [f"{file.path} (+{file.added} -{file.removed})" for file in files[:_FILES_SHOWN]]
    if len(files) > _FILES_SHOWN:
        names.append(f"and {len(files) - _FILES_SHOWN} more files")
    lines = [line for file in files for line in file.lines if line[0] in "+-" and line[1:].strip()]
    shown = [line[:_LINE_CHARACTERS] for line in lines[:_DIFF_LINES]]
    return "; ".join(names) + ("\n" + "\n".join(shown) if shown else "")


def _prompt(commit: Commit) -> str:
    return f"{git_history.PROMPT} {commit.change}"
