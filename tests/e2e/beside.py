"""A stream that runs in a thread beside whatever a test does, and must not notice it."""

from __future__ import annotations

import itertools
import json
import threading
import time
from types import TracebackType
from typing import Any

from tests.e2e.reef_home import ReefHome

QUESTION = [{"role": "user", "content": "Tell me a long story about a river and its boats."}]
_TOKENS = 150


def story(reef: ReefHome, *, times: list[float] | None = None, text: str = "") -> str:
    """One greedy streamed reply to its end; `times` gets the time of each piece. With `text` it is a plain completion of that."""
    path = "/v1/completions" if text else "/v1/chat/completions"
    asked: dict[str, Any] = {"prompt": text} if text else {"messages": QUESTION}
    body = {"model": reef.model, **asked, "temperature": 0, "max_tokens": _TOKENS, "stream": True}
    pieces: list[str] = []
    with reef.http.stream("POST", reef.url + path, json=body, headers={"authorization": f"Bearer {reef.token('client')}"}) as answer:
        if answer.status_code != 200:
            raise AssertionError(answer.read().decode())
        for line in answer.iter_lines():
            if not line.startswith("data: {"):
                continue
            chunk = json.loads(line[6:])
            assert "error" not in chunk, chunk
            for choice in chunk["choices"]:
                piece = choice.get("text") or (choice.get("delta") or {}).get("content") or ""
                pieces.append(piece)
                if times is not None and piece:
                    times.append(time.monotonic())
    return "".join(pieces)


class Beside:
    """`with Beside(reef):` tells one story again and again. At the end each of them must have been as the first one, which was alone."""

    def __init__(self, reef: ReefHome, *, text: str = "") -> None:
        self._reef = reef
        self._text = text
        self._expected = ""
        self._told: list[str] = []
        self._failures: list[BaseException] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._times: list[list[float]] = []

    def __enter__(self) -> Beside:
        self._expected = story(self._reef, text=self._text)
        self._thread.start()
        self.wait_for_a_piece()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join(120)
        if error is None:
            assert not self._thread.is_alive(), "the stream beside does not end"
            assert self._told and not self._failures, self._failures
            assert set(self._told) == {self._expected}, "the stream beside told another story"

    def wait_for_a_piece(self, seconds: float = 60) -> None:
        """Return once a stream has shown something after now."""
        began = time.monotonic()
        while time.monotonic() < began + seconds:
            assert not self._failures, self._failures
            if any(times and times[-1] > began for times in self._times[-2:]):
                return
            time.sleep(0.01)
        raise AssertionError("the stream beside stands still")

    def longest_gap_s(self, since: float) -> float:
        """The longest that the stream stood still between two pieces of a reply, from `since` on."""
        gaps = [later - earlier for times in self._times for earlier, later in itertools.pairwise(list(times)) if later > since]
        return max(gaps, default=0.0)

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._times.append([])
                self._told.append(story(self._reef, times=self._times[-1], text=self._text))
        except BaseException as error:  # noqa: BLE001 -- told by the thread that waits
            self._failures.append(error)
