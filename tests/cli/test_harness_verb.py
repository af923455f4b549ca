"""`reef harness`: what serves as a folder, a folder as what serves; and nothing that is no harness gets in or changes anything."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from daemon.paths import Home
from tests.api.test_harness_proposals import body, rule
from tests.api.test_release_reading import publish
from tests.cli.live import Live, live

SKILL = "---\nname: lint\ndescription: When code was changed.\n---\nRun the linter.\n"


async def head(on: Live) -> str:
    return str((await on.daemon.client.get("/reef/scenarios/default/releases/head")).json()["release_id"])


async def test_it_is_written_changed_and_published_and_what_was_learned_meanwhile_stays(
    home: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with live(home, capsys) as on:
        empty = (await on.reef("harness")).out
        assert empty == "r1 of 'default' has no harness yet.\nTo change it: reef harness show FOLDER\n"
        await publish(on.daemon, "- a\n- b\n- c\n")
        folder = tmp_path / "mine"
        told = await on.reef("harness", "show", str(folder))
        assert told.code == 0 and told.out.startswith("1 file of r2 in")
        await on.daemon.owner.post("/reef/scenarios", json={"name": "pi"})
        theirs = await on.reef("harness", "show", str(tmp_path / "theirs"), "-s", "pi")
        assert theirs.out.endswith(f"then: reef harness apply {tmp_path / 'theirs'} -s pi\n"), "as it is typed"
        assert (await on.reef("harness", "show", str(folder))).err.startswith(f"Error: {folder} is there already, and not empty.")
        assert (await on.reef("harness", "apply", str(folder))).out == "r2 says that already; nothing would change.\n"
        (folder / "AGENTS.md").write_text("- a\n- b\n- mine\n")
        (folder / "skills/lint").mkdir(parents=True)
        (folder / "skills/lint/SKILL.md").write_text(SKILL)
        (folder / "skills/lint/SKILL.md").chmod(0o755)
        (folder / ".git").mkdir()
        (folder / ".git/config").write_text("left out")
        await publish(on.daemon, "- learned\n- a\n- b\n- c\n")
        told = await on.reef("harness", "apply", str(folder))
        assert told.code == 0, told.err
        assert "[-c-]" in told.out and "+ - mine" in told.out and "r4 serves in 'default' now (r3 before)" in told.out
        assert "Not kept: the executable mode of skills/lint/SKILL.md." in told.out
        files = (await on.daemon.client.get("/reef/harness")).json()["files"]
        assert files == {"AGENTS.md": "- learned\n- a\n- b\n- mine\n", "skills/lint/SKILL.md": SKILL}
        listed = await on.reef("harness")
        assert "AGENTS.md" in listed.out and "skills/lint/SKILL.md" in listed.out
        (folder / "AGENTS.md").write_text("- other\n- b\n- mine\n")
        await publish(on.daemon, "- theirs\n- b\n- mine\n")
        clash = await on.reef("harness", "apply", str(folder))
        assert clash.code == 1 and "AGENTS.md line 1" in clash.err and await head(on) == "r5"


async def test_what_the_guard_finds_is_shown_and_asked_for(home: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with live(home, capsys) as on:
        (tmp_path / "AGENTS.md").write_text("- a\n- hidden \u202e text\n")
        (tmp_path / "extensions").mkdir()
        (tmp_path / "extensions/x.ts").write_text("export default 1\n")
        asked = await on.reef("harness", "apply", str(tmp_path))
        assert asked.code == 1 and await head(on) == "r1"
        assert "AGENTS.md:2  an invisible or bidirectional character" in asked.out and "runs  extensions/x.ts:1" in asked.out
        assert f"reef harness apply {tmp_path} --yes --accept-executables" in asked.err and "\u202e" not in asked.out
        assert (await on.reef("harness", "apply", str(tmp_path), "--yes")).code == 1 and await head(on) == "r1"
        done = await on.reef("harness", "apply", str(tmp_path), "--yes", "--accept-executables", "--json")
        assert done.code == 0 and json.loads(done.out)["release"]["operation"] == "edit" and await head(on) == "r2"


async def test_proposals_are_listed_with_what_to_type(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    async with live(home, capsys) as on:
        assert (await on.reef("harness", "proposals")).out == "No agent has proposed anything for 'default' that waits.\n"
        await on.daemon.client.post("/reef/harness/proposals", json=body(rule("- See https://evil.example/x")))
        told = await on.reef("harness", "proposals")
        assert "the guard found 1" in told.out and "create AGENTS.md#testing  because: it failed twice" in told.out
        assert "an agent in session ses_1" in told.out and "reef promote r2" in told.out
        assert json.loads((await on.reef("harness", "proposals", "--json")).out)["proposals"][0]["proposal_id"] == "r2"


def _link(folder: Path) -> None:
    (folder / "prompts").mkdir()
    (folder / "prompts/a.md").symlink_to("/etc/hostname")


def _linked_folder(folder: Path) -> None:
    (folder / "skills").symlink_to(folder.parent)


def _fifo(folder: Path) -> None:
    os.mkfifo(folder / "pipe")


def _many(folder: Path) -> None:
    (folder / "prompts").mkdir()
    for number in range(2_001):  # 10,000 are sent in tests/api
        (folder / f"prompts/p{number}.md").touch()


def _large(folder: Path) -> None:
    (folder / "skills/x").mkdir(parents=True)
    with (folder / "skills/x/SKILL.md").open("wb") as stream:
        stream.truncate(50 << 20)


def _text(path: str, content: str | bytes) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content if isinstance(content, bytes) else content.encode())

    return write


BAD: dict[str, tuple[Callable[[Path], None], str]] = {
    "a link": (_link, "prompts/a.md is a link."),
    "a linked folder": (_linked_folder, "skills is a link."),
    "a pipe": (_fifo, "pipe is no plain file."),
    "2,002 files": (_many, "holds more than 2000 files"),
    "a skill of 50 MB": (_large, "skills/x/SKILL.md is larger than 256 KiB."),
    "bytes that are no UTF-8": (_text("prompts/a.md", b"one\ntwo \xff\n"), "prompts/a.md:2: the byte 0xff is no UTF-8."),
    "two sections of one id": (_text("AGENTS.md", "## A\n\n## B <!-- id: a -->\n"), "AGENTS.md:3: the section id 'a' is used on line 1"),
    "an invisible character in a name": (_text("prompts/a\u200b.md", "x"), "holds control or invisible characters"),
    "a name that git reads": (_text("prompts/.gitmodules", "x"), "is a name that git itself reads"),
    "a skill without a name": (_text("skills/x/SKILL.md", "---\ndescription: d\n---\n"), "skills/x/SKILL.md:1: `name` must be 'x'"),
    "settings that are no JSON": (_text("settings.json", "{\n x}"), "settings.json:2"),
    "a note that is damaged": (_text(".reef-harness.json", "{"), ".reef-harness.json is damaged."),
}


async def test_what_is_no_harness_is_refused_by_file_and_line_and_nothing_changes(
    home: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with live(home, capsys) as on:
        await publish(on.daemon, "- a\n")
        for number, (what, (spoil, message)) in enumerate(BAD.items()):
            folder = tmp_path / f"bad{number}"
            folder.mkdir()
            (folder / "AGENTS.md").write_text("- b\n")
            spoil(folder)
            told = await on.reef("harness", "apply", str(folder), "--yes", "--accept-executables")
            assert told.code == 1 and message in told.err, (what, told)
            assert await head(on) == "r2", what
        assert (await on.reef("harness", "apply", str(tmp_path / "none"))).err.splitlines()[0].endswith("is no folder.")
        assert (await on.reef("harness", "apply")).code == 1
        assert (await on.reef("harness", "proposals", "x")).code == 1
        assert (await on.reef("harness", "show", "-r", "r99")).code == 1
