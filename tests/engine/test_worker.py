"""One bad request must not take the others with it, and learning must not take a live request's place in the queue."""

from __future__ import annotations

from queue import SimpleQueue
from typing import cast

import pytest

from daemon.engine.base import Priority
from daemon.engine.llama.chat.prompts import Prompts
from daemon.engine.llama.fair_queue import QUEUE_LIMIT
from daemon.engine.llama.intake import Cancel, Command, Intake, Stop, Submit
from daemon.engine.llama.loras import LoadedLoRAs
from daemon.engine.llama.pace import Pace
from daemon.engine.llama.scheduler import Scheduler
from daemon.engine.llama.structure.structure import Structures
from daemon.engine.llama.vocabulary import Vocabulary
from daemon.engine.llama.worker import Worker
from daemon.gguf import GGUFHeader
from daemon.records import JSONObject
from tests.engine.fake_model import FakeModel
from tests.engine.jobs import greedy

HEADER = GGUFHeader("llama", "m", "F16", 64, None, 0, 0, {}, 0, ())


class _BrokenPrompts:
    def of_conversation(self, *_: object, **__: object) -> None:
        raise ZeroDivisionError


class _Size:
    size = 10


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> SimpleQueue[JSONObject]:
    messages: SimpleQueue[JSONObject] = SimpleQueue()
    for module in ("intake", "worker"):
        monkeypatch.setattr(f"daemon.engine.llama.{module}.send", messages.put)
    monkeypatch.setattr("daemon.engine.llama.worker.send_all", lambda several: [messages.put(each) for each in several])
    return messages


def test_what_fails_while_a_request_is_prepared_ends_that_request_alone(sent: SimpleQueue[JSONObject]) -> None:
    commands: SimpleQueue[Command] = SimpleQueue()
    prompts, vocabulary, unused = cast(Prompts, _BrokenPrompts()), cast(Vocabulary, _Size()), cast(Structures, None)
    conversation: JSONObject = {"messages": [{"role": "user", "content": "x"}]}
    Intake(HEADER, vocabulary, prompts, unused, LoadedLoRAs(FakeModel()), commands, 64).run(
        iter(
            [
                {"type": "generate", "id": 1, **conversation},
                {"type": "render", "id": 2, **conversation},
                {"type": "generate", "id": 3, "messages": "none"},
                {"type": "nonsense", "id": 4},
                {"type": "cancel", "id": 5},
            ]
        )
    )
    errors = [sent.get(timeout=5) for _ in range(4)]
    assert {message["id"]: (message["type"], message["kind"]) for message in errors} == {
        1: ("error", "EngineError"),
        2: ("error", "EngineError"),
        3: ("error", "BadRequest"),
        4: ("error", "BadRequest"),
    }
    assert [type(commands.get_nowait()) for _ in range(2)] == [Cancel, Stop]


def test_a_queue_full_of_learning_still_takes_a_live_request(sent: SimpleQueue[JSONObject]) -> None:
    def job(number: int, priority: Priority) -> Submit:
        return Submit(greedy(number, [1, 2, 3], None, priority, 4, scenario=str(number)))

    model = FakeModel()
    loras = LoadedLoRAs(model)
    commands: SimpleQueue[Command] = SimpleQueue()
    for number in range(QUEUE_LIMIT + 1):
        commands.put(job(number, Priority.EVALUATION))
    commands.put(job(1000, Priority.LIVE))
    commands.put(Stop())
    Worker(Scheduler(model, model, loras, 1, 0, Pace()), loras, commands).run()
    messages = [sent.get_nowait() for _ in range(sent.qsize())]
    refused = [message["id"] for message in messages if message["type"] == "error"]
    assert refused == [QUEUE_LIMIT], "the one evaluation too many, and not the live request"
