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


def story(reef: ReefHome, *, seen: list[tuple[float, str]] | None = None, max_tokens: int = 300, text: str = "") -> str:
    """One greedy streamed reply to its end; `seen` gets each piece with its time. With `text` it is a plain completion."""
    path = "/v1/completions" if text else "/v1/chat/completions"
    asked: dict[str, Any] = {"prompt": text} if text else {"messages": QUESTION}
    body = {"model": reef.model, **asked, "temperature": 0, "max_tokens": max_tokens, "stream": True}
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
                if seen is not None and piece:
                    seen.append((time.monotonic(), piece))
    return "".join(pieces)


class Beside:
    """`with Beside(reef, expected):` tells the same story again and again; at the end each of them must have been as it is alone."""

    def __init__(self, reef: ReefHome, expected: str, *, text: str = "") -> None:
        self._reef = reef
        self._expected = expected
        self._text = text
        self._told: list[str] = []
        self._failures: list[BaseException] = []
        self._stop = threading.Event()
        self._begun = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.longest_gap_s = 0.0

    def __enter__(self) -> Beside:
        self._thread.start()
        assert self._begun.wait(60), "the stream beside did not begin"
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join(120)
        if error is None:
            assert not self._thread.is_alive(), "the stream beside does not end"
            assert not self._failures, self._failures
            assert set(self._told) == {self._expected}, "the stream beside told another story"

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                seen: list[tuple[float, str]] = []
                watch = threading.Thread(target=self._watch, args=(seen,), daemon=True)
                watch.start()
                self._told.append(story(self._reef, seen=seen, text=self._text))
                watch.join(10)
                gaps = [later - earlier for (earlier, _), (later, _) in itertools.pairwise(seen)]
                self.longest_gap_s = max([self.longest_gap_s, *gaps])
        except BaseException as error:  # noqa: BLE001 -- told by the thread that waits
            self._failures.append(error)
            self._begun.set()

    def _watch(self, seen: list[tuple[float, str]]) -> None:
        """Sets `begun` at the first piece."""
        for _ in range(1200):
            if seen or self._failures:
                self._begun.set()
                return
            time.sleep(0.05)
