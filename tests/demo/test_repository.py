"""`reef demo --repo`: what is taken from a user's history, and what is refused."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from daemon.errors import DataError
from reef_cli.demo.repository import form_of, read_commits, workload_of
from reef_cli.demo.workload import shipped_workload


def git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", "-C", str(folder), *identity, *arguments], check=True, capture_output=True)


def history(folder: Path, subjects: list[str]) -> Path:
    git(folder, "init", "-q", "-b", "main")
    for number, subject in enumerate(["Initial commit", *subjects]):
        (folder / f"file{number % 5}.py").write_text(f"value = {number}\nprint(value)\n")
        git(folder, "add", ".")
        git(folder, "commit", "-q", "-m", f"{subject}\n\nA body that is not asked for.")
    return folder


def test_a_history_becomes_a_workload_whose_held_out_commits_are_not_taught(tmp_path: Path) -> None:
    repository = history(tmp_path, [f"fix(core): correct value {number}" for number in range(40)])
    workload = workload_of(repository, shipped_workload())
    assert len(workload.corrections) == 8 and len(workload.held_out) >= 20 and len(workload.held_in) >= 4
    taught = {correction.prompt for correction in workload.corrections}
    assert not taught & {*workload.held_out, *workload.held_in, *workload.sealed}
    assert all(workload.has_form(correction.reply) for correction in workload.corrections)
    assert "file" in workload.corrections[0].prompt and "correct value" not in workload.corrections[0].prompt
    assert "body" not in workload.corrections[0].reply
    assert not workload.has_form("This change makes the code better. It was needed because the value was wrong.")


def test_too_short_a_history_and_a_folder_without_one_are_refused_with_numbers(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="needs 32"):
        workload_of(history(tmp_path, ["Add a thing", "Mend the thing"]), shipped_workload())
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(DataError, match="cannot be read"):
        workload_of(tmp_path / "absent", shipped_workload())


def test_nothing_that_a_repository_configures_is_run(tmp_path: Path) -> None:
    repository = history(tmp_path, ["Change one thing"])
    ran = tmp_path / "ran"
    (repository / ".git" / "info" / "attributes").write_text("*.py diff=evil\n")
    git(repository, "config", "diff.evil.textconv", f"touch {ran}; cat")
    git(repository, "config", "diff.external", f"touch {ran}")
    assert read_commits(repository)
    assert not ran.exists()


@pytest.mark.parametrize(
    ("subjects", "other"),
    [
        (["feat(cli): add a flag", "fix: mend the flag", "docs(readme): say more"], "Added a flag to the command line"),
        (["net/http: close the body", "runtime: scan less", "cmd/go: cache modules"], "Close the body"),
        (["Close the body of the reply", "Scan less of the heap", "Cache modules for longer"], "closed the body."),
    ],
)
def test_the_form_is_what_most_subjects_share(subjects: list[str], other: str) -> None:
    pattern, name = form_of(subjects)
    assert all(re.search(pattern, subject) for subject in subjects), name
    assert not re.search(pattern, other), name
    assert not re.search(pattern, subjects[0] + "\n\nAnd a long explanation."), name
