"""One bad request must not take the others with it, and learning must not take a live request's place in the queue."""

from __future__ import annotations

from queue import SimpleQueue
from typing import cast

import pytest

from daemon.engine.base import Priority
from daemon.engine.llama.intake import Cancel, Command, Intake, Stop, Submit
from daemon.engine.llama.loras import LoadedLoRAs
from daemon.engine.llama.scheduler import Scheduler
from daemon.engine.llama.template import ChatTemplate
from daemon.engine.llama.vocabulary import Vocabulary
from daemon.engine.llama.worker import QUEUE_LIMIT, Worker
from daemon.gguf import GGUFHeader
from daemon.records import JSONObject
from tests.engine.jobs import greedy
from tests.engine.test_scheduler import FakeModel

HEADER = GGUFHeader("llama", "m", "F16", 64, None, 0, 0, {}, 0, ())


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[JSONObject]:
    messages: list[JSONObject] = []
    for module in ("intake", "worker"):
        monkeypatch.setattr(f"daemon.engine.llama.{module}.send", messages.append)
    return messages


def test_what_fails_while_a_request_is_prepared_ends_that_request_alone(sent: list[JSONObject]) -> None:
    commands: SimpleQueue[Command] = SimpleQueue()
    template = ChatTemplate("{{ 1 // 0 }}")
    unused = cast(Vocabulary, None)  # the template fails first
    conversation: JSONObject = {"messages": [{"role": "user", "content": "x"}]}
    Intake(HEADER, unused, template, 64, commands).run(
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
    assert [(message["type"], message["id"], message["kind"]) for message in sent] == [
        ("error", 1, "EngineError"),
        ("error", 2, "EngineError"),
        ("error", 3, "BadRequest"),
        ("error", 4, "BadRequest"),
    ]
    assert [type(commands.get_nowait()) for _ in range(2)] == [Cancel, Stop]


def test_a_queue_full_of_learning_still_takes_a_live_request(sent: list[JSONObject]) -> None:
    def job(number: int, priority: Priority) -> Submit:
        return Submit(greedy(number, [1, 2, 3], None, priority, 4), None)

    model = FakeModel()
    loras = LoadedLoRAs(model)
    commands: SimpleQueue[Command] = SimpleQueue()
    for number in range(QUEUE_LIMIT + 1):
        commands.put(job(number, Priority.EVALUATION))
    commands.put(job(1000, Priority.LIVE))
    commands.put(Stop())
    Worker(Scheduler(model, model, loras, 1), loras, commands).run()
    refused = [message["id"] for message in sent if message["type"] == "error"]
    assert refused == [QUEUE_LIMIT], "the one evaluation too many, and not the live request"
