"""The worker's front desk: a bad request ends alone, and one that takes long to prepare holds up nobody else."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from queue import SimpleQueue
from typing import cast

import pytest

from daemon.engine.base import Priority
from daemon.engine.llama.chat.control_text import Piece
from daemon.engine.llama.chat.prompts import Prompts
from daemon.engine.llama.chat.template import Conversation
from daemon.engine.llama.formats.families import format_of
from daemon.engine.llama.intake import Cancel, Command, Intake, Stop, Submit
from daemon.engine.llama.loras import LoadedLoRAs
from daemon.engine.llama.structure.structure import Structures
from daemon.engine.llama.vocabulary import Vocabulary
from daemon.errors import BadRequest
from daemon.gguf import GGUFHeader
from daemon.records import JSONObject
from tests.engine.fake_model import FakeModel

HEADER = GGUFHeader("llama", "m", "F16", 64, None, 0, 0, {}, 0, ())


class Letters:
    """As much of a vocabulary as preparing takes."""

    size = 300
    longest_piece_bytes = 1
    begin_text = ""
    defined_texts: frozenset[str] = frozenset()
    fill_tokens = None

    def tokenize(self, text: str, *, begin: bool = False, special: bool = False) -> list[int]:
        return [ord(character) for character in text]

    def markers(self, texts: Iterable[str]) -> dict[int, bytes]:
        return {}


class Desk:
    """An intake whose renderer does what the first message says; `wait` waits until the test lets it go on."""

    knows_tools = True

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sent: list[JSONObject] = []
        self.commands: SimpleQueue[Command] = SimpleQueue()
        self.go = threading.Event()
        self.rendered: list[str] = []
        monkeypatch.setattr("daemon.engine.llama.intake.send", self.sent.append)
        vocabulary = cast(Vocabulary, Letters())
        prompts = Prompts(vocabulary, self, format_of(None), 64)
        self._intake = Intake(HEADER, vocabulary, prompts, Structures(vocabulary), LoadedLoRAs(FakeModel()), self.commands, 64)

    def render(self, conversation: Conversation) -> list[Piece]:
        content = str(conversation.messages[0]["content"])
        self.rendered.append(content)
        if content == "wait":
            self.go.wait(10)
        if content == "fail":
            raise ZeroDivisionError
        if content == "refuse":
            raise BadRequest("The template refuses.", param="messages")
        return [("abc", True)]

    def run(self, *steps: JSONObject | Callable[[], bool]) -> None:
        """Messages for it to read, and conditions that are waited for before the next."""

        def read() -> Iterator[JSONObject]:
            for step in steps:
                if isinstance(step, dict):
                    yield step
                    continue
                deadline = time.monotonic() + 10
                while not step():
                    assert time.monotonic() < deadline, (self.sent, self.rendered)
                    time.sleep(0.002)

        self._intake.run(read())


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    made = Desk(monkeypatch)
    yield made
    made.go.set()


def generate(number: int, content: str, **fields: object) -> JSONObject:
    message: JSONObject = {"type": "generate", "id": number, "messages": [{"role": "user", "content": content}]}
    return {**message, **{name: value for name, value in fields.items() if isinstance(value, int | str)}}


def commands(desk: Desk) -> list[Command]:
    return [desk.commands.get_nowait() for _ in range(desk.commands.qsize())]


def number(command: Command) -> int:
    """The call of a command; negative for a cancellation, 0 for the end."""
    return command.job.id if isinstance(command, Submit) else -command.id if isinstance(command, Cancel) else 0


def test_what_fails_while_a_request_is_prepared_ends_that_request_alone(desk: Desk) -> None:
    desk.run(
        generate(1, "fail"),
        {"type": "render", "id": 2, "messages": [{"role": "user", "content": "refuse"}]},
        {"type": "generate", "id": 3, "messages": "none"},
        {"type": "nonsense", "id": 4},
        generate(5, "go", max_tokens=0),
        generate(6, "go", suffix="x"),
        generate(7, "go"),
        lambda: len(desk.sent) == 6 and desk.commands.qsize() == 1,
    )
    assert sorted((message["id"], message["kind"]) for message in desk.sent) == [
        (1, "EngineError"),
        (2, "BadRequest"),
        (3, "BadRequest"),
        (4, "BadRequest"),
        (5, "BadRequest"),
        (6, "BadRequest"),
    ]
    done = commands(desk)
    assert isinstance(done[0], Submit) and done[0].job.id == 7 and isinstance(done[1], Stop)


def test_a_request_that_takes_long_to_prepare_does_not_hold_up_a_hang_up_or_another_request(desk: Desk) -> None:
    desk.run(generate(1, "wait"), generate(2, "go"), {"type": "cancel", "id": 9}, lambda: desk.commands.qsize() == 2)
    assert "wait" in desk.rendered
    assert sorted(number(command) for command in commands(desk)) == [-9, 0, 2]


def test_what_needs_no_template_does_not_wait_for_one(desk: Desk) -> None:
    text: JSONObject = {"type": "generate", "id": 3, "messages": [], "text": "abc"}
    desk.run(generate(1, "wait"), generate(2, "wait"), lambda: len(desk.rendered) == 2, text, lambda: desk.commands.qsize() == 1)
    assert [number(command) for command in commands(desk)] == [3, 0]


def test_nobody_waits_for_a_lora_that_is_being_verified(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daemon.engine.llama.intake.check_lora_file", lambda *_: desk.go.wait(10))
    load: JSONObject = {"type": "load_lora", "id": 1, "lora": {"id": "1", "path": "1"}}
    text: JSONObject = {"type": "generate", "id": 3, "messages": [], "text": "abc"}
    desk.run(load, text, generate(4, "go"), lambda: desk.commands.qsize() == 2)
    assert sorted(number(command) for command in commands(desk)) == [0, 3, 4]


def test_a_request_given_up_while_it_waits_is_not_prepared(desk: Desk) -> None:
    def let_go() -> bool:
        desk.go.set()
        return desk.commands.qsize() == 4

    given_up: list[JSONObject] = [{"type": "cancel", "id": 3}, {"type": "cancel", "id": 1}]
    desk.run(generate(1, "wait"), generate(2, "wait"), lambda: len(desk.rendered) == 2, generate(3, "go"), *given_up, let_go)
    assert "go" not in desk.rendered
    order = [number(command) for command in commands(desk)]
    assert 3 not in order and order.index(1) < order.index(-1), "what was given up meanwhile is submitted, then cancelled"


def test_a_live_request_is_prepared_before_what_learning_asked_for_earlier(desk: Desk) -> None:
    def let_go() -> bool:
        desk.go.set()
        return desk.commands.qsize() == 5

    learning = [generate(3, "run", priority=int(Priority.RUN)), generate(4, "evaluate", priority=int(Priority.EVALUATION))]
    desk.run(generate(1, "wait"), generate(2, "wait"), lambda: len(desk.rendered) == 2, *learning, generate(5, "live"), let_go)
    assert desk.rendered.index("live") < desk.rendered.index("evaluate") < desk.rendered.index("run")
