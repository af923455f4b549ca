"""A tree that no agent could read, or that would leave its folder: a sentence with file and line, and what serves goes on."""

from __future__ import annotations

import json
from pathlib import Path

from tests.api.test_release_reading import publish
from tests.daemon.running import running

PATH = "/reef/scenarios/default/harness"
SKILL = "---\nname: lint\ndescription: When code was changed.\n---\n"

BAD: tuple[tuple[dict[str, str], str], ...] = (
    ({"../AGENTS.md": "x"}, "'../AGENTS.md' has an empty, `.` or `..` part"),
    ({"skills/../../x.md": "x"}, "has an empty, `.` or `..` part"),
    ({"/etc/passwd": "x"}, "'/etc/passwd' is absolute"),
    ({"prompts\\a.md": "x"}, "is absolute, or holds a backslash or a colon"),
    ({"C:/a.md": "x"}, "is absolute, or holds a backslash or a colon"),
    ({"prompts/.git/config": "x"}, "is a name that git itself reads"),
    ({"prompts/a\u202e.md": "x"}, "holds control or invisible characters"),
    ({"prompts/\ud800.md": "x"}, "holds control or invisible characters"),
    ({"prompts/a.md": "one\ntwo \ud800"}, "prompts/a.md:2: half a character is not valid UTF-8."),
    ({"prompts/a.md": "x", "prompts/A.md": "x"}, "differ only in case"),
    ({"skills/a/SKILL.md": "x", "skills/a/SKILL.md/b.md": "x"}, "is both a file and the folder of"),
    ({"AGENTS.md": "## Tests\n\nx\n\n## Other <!-- id: tests -->\n"}, "AGENTS.md:5: the section id 'tests' is used on line 1 already."),
    ({"skills/lint/SKILL.md": SKILL + "x" * (50 << 20)}, "skills/lint/SKILL.md is larger than 256 KiB."),
    ({f"prompts/p{number}.md": "x" for number in range(10_000)}, "The harness has 10000 files; at most 2000 fit."),
    ({"serving.json": '{"system_prefix": 5}'}, "serving.json:1: system_prefix"),
    ({"settings.json": "[" * 100_000}, "settings.json:1"),
)


async def test_what_is_no_harness_is_refused_and_nothing_changes(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        await publish(daemon, "- a\n")
        for files, message in BAD:
            sent = json.dumps({"files": files, "base_release_id": "r2"}).encode()  # half a character is an escape then
            answer = await daemon.owner.post(PATH, content=sent, headers={"content-type": "application/json"})
            assert answer.status_code in (400, 422), (message, answer.status_code, answer.text[:300])
            assert message in answer.json()["error"]["message"], answer.text[:300]
            head = daemon.services.repository.head("default")
            assert head is not None and head.id == "r2" and dict(head.tree.files) == {"AGENTS.md": "- a\n"}
        raw = b'{"files": {"AGENTS.md": "\xff"}, "base_release_id": "r2"}'
        answer = await daemon.owner.post(PATH, content=raw, headers={"content-type": "application/json"})
        assert answer.status_code == 400, answer.text
        for strange in ({"files": []}, {"files": {"AGENTS.md": 5}}, {}):
            assert (await daemon.owner.post(PATH, json=strange)).status_code == 400


async def test_invisible_characters_in_a_text_are_shown_with_their_line(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        answer = (await daemon.owner.post(PATH, json={"files": {"AGENTS.md": "- a\n- b\u200bc\n"}, "base_release_id": "r1"})).json()
        assert answer["published"] is False
        [found] = answer["findings"]
        assert (found["path"], found["line"], found["span"]) == ("AGENTS.md", 2, "- a - b\\u{200b}c")
