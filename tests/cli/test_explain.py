"""`reef explain`: a page for others, which loads nothing, runs nothing, and holds nobody's words unless they were asked for."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from markdown_it import MarkdownIt

from reef_cli.explaining.curve import loss_curve
from reef_cli.explaining.page_html import page as html_page
from reef_cli.explaining.page_markdown import page as markdown_page
from reef_cli.explaining.page_markdown import prose
from reef_cli.explaining.story import Exchange, Story

from .conftest import StandIn
from .test_release_verbs import COMPARED, SHOWN, item

BASE = "/reef/scenarios/default"
EVIL = "</pre></code><script>alert(1)</script><img src=x onerror=alert(2)>\"'&amp; [a](http://x.example) `` ``` | *b* \x1b[2J \u202e https://x.example"
VOID = {"meta", "br", "rect", "line", "polyline"}


class Checked(HTMLParser):
    """Reads a page as a browser does, and notes what it is made of."""

    def __init__(self) -> None:
        super().__init__()
        self.open = list[str]()
        self.tags = set[str]()
        self.attributes = list[tuple[str, str, str]]()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}> closes another"

    def handle_data(self, data: str) -> None:
        self.text += data if "style" not in self.open else ""


def read(page: str) -> Checked:
    found = Checked()
    found.feed(page)
    found.close()
    assert found.open == []
    return found


def evil(value: Any) -> Any:
    """The same answer in which every text is an attack; what the daemon itself makes up stays."""
    ours = {
        "release_id",
        "kind",
        "status",
        "outcome",
        "state",
        "tasks_compared",
        "parent_release_id",
        "id",
        "content_id",
        "sha256",
        "commit_id",
    }
    if isinstance(value, dict):
        return {name: one if name in ours else evil(one) for name, one in value.items()}
    if isinstance(value, list):
        return [evil(one) for one in value]
    return EVIL if isinstance(value, str) else value


def story(with_sessions: bool = False, **more: Any) -> Story:
    hints = {
        "path": "serving.json",
        "status": "added",
        "hunks": [{"lines": [{"kind": "added", "segments": [["Demonstrated words", True]]}]}],
    }
    change: Any = {**COMPARED, "files": [*COMPARED["files"], hints]}  # type: ignore[list-item]
    fields: dict[str, Any] = {
        "release": SHOWN,
        "change": change,
        "around": (item("r15", "+1 rule"), SHOWN, item("r13", "+1 skill", state="rejected")),
        "losses": tuple((step, 2.0 / step) for step in range(1, 31)),
        "exchanges": (Exchange("ses_1", "Asked words", "Answered words"),) if with_sessions else (),
    }
    return Story("default", with_sessions=with_sessions, **(fields | more))


def test_the_page_holds_the_whole_story() -> None:
    found = read(html_page(story()))
    for part in (
        "r14",
        "+2 rules",
        "promoted: better",
        "Be brief",
        "layer 10",
        "step 30",
        "held-out",
        "h1",
        "Say yes",
        "luck alone",
        "3 records of 1 session",
        "r13",
        "rejected",
        "ab" * 32,
        "seed",
        "rounds",
    ):
        assert part in found.text
    assert {"svg", "polyline", "ins", "del", "details"} <= found.tags


def test_nothing_is_loaded_or_run_and_nothing_leads_elsewhere() -> None:
    page = html_page(story(with_sessions=True))
    found = read(page)
    assert not found.tags & {"script", "link", "img", "iframe", "a", "object", "embed", "form", "base"}
    assert not [name for _, name, _ in found.attributes if name in ("src", "href", "srcset", "action") or name.startswith("on")]
    assert "url(" not in page and "@import" not in page and "://" not in page
    [policy] = [value for tag, name, value in found.attributes if tag == "meta" and name == "content" and "default-src" in value]
    assert "default-src 'none'" in policy


def test_what_people_and_models_said_is_text_and_never_markup() -> None:
    attacked = Story(EVIL, evil(SHOWN), evil(story().change), (evil(SHOWN),), ((1, 2.0), (2, 1.0)), True, (Exchange(EVIL, EVIL, EVIL),))
    harmless = read(html_page(story(with_sessions=True)))
    page = html_page(attacked)
    found = read(page)
    assert found.tags <= harmless.tags, "a text became a tag"
    assert {name for _, name, _ in found.attributes} <= {name for _, name, _ in harmless.attributes}
    assert "\x1b" not in page and "\u202e" not in page
    assert found.text.count("<script>alert(1)</script>") > 20, "it is there to be read"


def test_markdown_keeps_it_as_text_too() -> None:
    """Read with HTML let through and bare addresses made links, as a wiki would."""
    attacked = Story(EVIL, evil(SHOWN), evil(story().change), (evil(SHOWN),), (), True, (Exchange(EVIL, EVIL, EVIL),))
    page = markdown_page(attacked)
    reader = MarkdownIt("commonmark", {"html": True}).enable("table")
    found, harmless = read(reader.render(page)), read(reader.render(markdown_page(story(with_sessions=True))))
    assert found.tags <= harmless.tags, "a text became a tag"
    assert not found.tags & {"script", "img", "a"}
    assert {name for _, name, _ in found.attributes} <= {"class"}
    assert "\x1b" not in page
    assert found.text.count("<script>alert(1)</script>") > 20, "it is there to be read"
    assert "https://" not in re.sub(r"`+.*?`+", "", re.sub(r"(?ms)^(`{3,})\w*$.*?^\1$", "", page)), (
        "an address outside of code becomes a link"
    )
    assert prose("a\n# b | <c> *d* www.e") == r"a \# b \| \<c\> \*d\* www\.e"


@pytest.mark.parametrize("page", [html_page, markdown_page])
def test_what_sessions_said_is_only_there_when_asked_for(page: Any) -> None:
    words = ("How do I run the tests?", "Demonstrated words", "Asked words", "Answered words")
    private, whole = page(story()), page(story(with_sessions=True))
    assert [word for word in words if word in private] == []
    assert [word for word in words if word not in whole] == []
    assert "left out here" in private and "left out here" not in whole


@pytest.mark.parametrize("page", [html_page, markdown_page])
def test_a_release_of_which_little_is_known_has_a_page(page: Any) -> None:
    bare = Story("default", item("r1", "the base model, without LoRA or harness", operation="creation"), {}, (), (), False)
    found = page(bare)
    assert "the base model" in found and "No session" in found and "How it was trained" not in found


@pytest.mark.parametrize("page", [html_page, markdown_page])
def test_what_the_rest_of_the_model_still_says_is_there(page: Any) -> None:
    """A LoRA that learned its tasks and forgot everything else shows here."""
    answers = [{"prompt": "What is a coral?", "before": "An animal.", "after": "A commit."}]
    told = {**SHOWN, "tasks": {**SHOWN["tasks"], "unrelated": answers}}  # type: ignore[dict-item]
    assert all(text in page(story(release=told)) for text in ("What is a coral?", "An animal.", "A commit."))


def test_the_curve_is_a_picture_of_the_losses() -> None:
    picture = ElementTree.fromstring(loss_curve([(1, 2.0), (2, 1.5), (3, float("nan")), (4, 1.0)]))
    [line] = picture.findall("polyline")
    points = [tuple(float(part) for part in point.split(",")) for point in line.attrib["points"].split()]
    assert len(points) == 3 and points == sorted(points), "from left to right, downwards as the loss falls"
    assert loss_curve([(1, 2.0)]) == "" and loss_curve([]) == ""
    assert len(ElementTree.fromstring(loss_curve([(step, 1.0) for step in range(10_000)]))[-1].attrib["points"]) < 10_000


def test_the_file_is_written_where_it_is_asked_for(reef, daemon: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    daemon.answer(f"GET {BASE}/releases/head", {**SHOWN, "run": {"id": "run_1", "status": "done"}})
    daemon.answer(f"GET {BASE}/releases/r13/diff/r14", COMPARED)
    daemon.answer(f"GET {BASE}/releases", {"releases": [SHOWN], "next": None})
    daemon.answer(
        f"GET {BASE}/runs/run_1/events",
        'id: 1\ndata: {"type": "step", "step": 1, "loss": 2.5}\n\nid: 2\ndata: {"type": "step", "step": 2, "loss": 1.25}\n\n',
    )
    record = {
        "payload": {"session": "ses_1", "messages": [{"role": "user", "content": "Asked words"}], "reply": {"content": "Answered words"}}
    }
    daemon.answer(f"GET {BASE}/records/rec_2", record)
    assert "Written: " in reef("explain", "head").out
    page = (tmp_path / "default-r14.html").read_text()
    assert "polyline" in page and "Asked words" not in page
    assert not [path for _, path, _, _ in daemon.asked if "/records/" in path], "private is not even asked for"
    told = json.loads(reef("explain", "head", "--md", "-o", "page.md", "--with-sessions", "--json").out)
    assert told["path"] == str(tmp_path / "page.md") and told["size_bytes"] > 1000 and told["with_sessions"]
    assert "Asked words" in (tmp_path / "page.md").read_text() and "step     1" in (tmp_path / "page.md").read_text()
    assert "default-r14.md" in reef("explain", "head", "--md", "-o", ".").out
    assert reef("explain", "head", "--md", "--html").code == 1
    assert reef("explain", "head", "-o", "/dev/null").code == 1 and Path("/dev/null").is_char_device()
    assert reef("explain", "r99").code == 1
