"""Secrets are gone from token ids too, and all other tokens stay as they were computed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.engine.base import Capability
from daemon.gateway.secrets import without_secrets
from daemon.records import Message, TokenTrace
from daemon.redaction.redact import RedactionRule
from daemon.redaction.redactor import Redactor, Secret
from daemon.redaction.tokens import Spelling, masked_trace
from tests.daemon.running import running
from tests.engine.fake import ScriptedEngine, encode, render
from tests.experience.make import inference, user

_BODY = "aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY"
KEY = f"sk-{_BODY}{_BODY}"


@dataclass
class Words(Spelling):
    """A vocabulary of pieces of any length: text is split where `cuts` says, else after each byte."""

    texts: list[bytes]

    def read(self, text: bytes, cuts: Sequence[int]) -> list[int]:
        tokens, at = [], 0
        for cut in (*cuts, 1):
            while at < len(text):
                piece = text[at : at + cut]
                at += len(piece)
                if piece not in self.texts:
                    self.texts.append(piece)
                tokens.append(self.texts.index(piece))
                if cut != 1:
                    break
        return tokens

    async def pieces(self, tokens: list[int]) -> list[bytes]:
        return [self.texts[token] for token in tokens]

    async def tokenize(self, text: str) -> list[int]:
        return self.read(text.encode(), [3] * 40)


def _spelled(words: Words, tokens: Sequence[int]) -> str:
    return b"".join(words.texts[token] for token in tokens).decode()


CUTS = st.lists(st.integers(1, 9), max_size=60)
TEXTS = st.lists(
    st.sampled_from([KEY, "gh" + f"p_{_BODY}1234", " é🙂 and ", "a = 1\n", "Bearer ", f"x {KEY}{KEY[:9]}", "plain words "]), max_size=5
)


@settings(max_examples=80)
@given(TEXTS.map("|".join), TEXTS.map("|".join), CUTS, CUTS)
async def test_the_ids_spell_the_redacted_text_and_the_rest_is_untouched(
    prompt: str, reply: str, first: list[int], second: list[int]
) -> None:
    words, found = Words([]), list[Secret]()
    redactor = Redactor()
    wanted = redactor.text(prompt, found)[0], redactor.text(reply, found)[0]
    trace = TokenTrace(tuple(words.read(prompt.encode(), first)), tuple(words.read(reply.encode(), second)), ())
    trace = replace(trace, logprobs=tuple(-1.0 - place for place in range(len(trace.completion))))
    made = await masked_trace(trace, found, words)
    assert made is not None
    assert (_spelled(words, made.prompt), _spelled(words, made.completion)) == wanted
    hidden = {place for start, stop in made.masked for place in range(start, stop)}
    everything = [*made.prompt, *made.completion]
    assert [token for place, token in enumerate(everything) if place not in hidden] == _outside(trace, everything, hidden)
    assert len(made.logprobs) == len(made.completion) and bool(hidden) == (made != trace)
    kept = [value for place, value in enumerate(made.logprobs, len(made.prompt)) if place not in hidden]
    assert all(value in trace.logprobs for value in kept)


def _outside(trace: TokenTrace, everything: Sequence[int], hidden: set[int]) -> list[int]:
    """What is not hidden is a subsequence of what was computed."""
    kept = [token for place, token in enumerate(everything) if place not in hidden]
    waiting = iter((*trace.prompt, *trace.completion))
    assert all(any(token == other for other in waiting) for token in kept)
    return kept


@pytest.mark.parametrize("cuts", [[70, 9], [60, 20, 100], [200], [68, 1, 1, 70]])
async def test_secrets_that_share_a_token_are_both_taken_out(cuts: list[int]) -> None:
    words, text = Words([]), f"a {KEY}|{KEY}|{KEY} z"
    made = await masked_trace(TokenTrace(tuple(words.read(text.encode(), cuts)), (), ()), [Secret(KEY, "api-key")], words)
    assert made is not None and _spelled(words, made.prompt) == "a [redacted:api-key]|[redacted:api-key]|[redacted:api-key] z"


async def test_a_secret_that_the_template_escaped_is_found() -> None:
    secret = f'pass"word\n{_BODY}'
    for form in (secret, json.dumps(secret)[1:-1], json.dumps(json.dumps(secret)[1:-1])[1:-1]):
        words = Words([])
        trace = TokenTrace(tuple(words.read(f"<tool>{form}</tool>".encode(), [])), (), ())
        made = await masked_trace(trace, [Secret(secret, "own")], words)
        assert made is not None and _spelled(words, made.prompt) == "<tool>[redacted:own]</tool>" and len(made.masked) == 1


async def test_ids_that_spell_a_secret_in_an_unknown_way_are_not_kept() -> None:
    words = Words([])
    broken = f"{KEY[:30]} {KEY[30:]}"
    assert await masked_trace(TokenTrace(tuple(words.read(broken.encode(), [])), (), ()), [Secret(KEY, "api-key")], words) is None


@pytest.mark.parametrize("model", ["scripted", "another"])
async def test_a_record_keeps_ids_that_no_longer_spell_its_secret(model: str) -> None:
    engine = ScriptedEngine()
    messages: tuple[Message, ...] = (user(f"my key is {KEY}, keep it"),)
    reply = f"Never show {KEY} to anybody."
    record = replace(
        inference(messages, reply, tokens=TokenTrace(tuple(render(messages, (), True)), tuple(encode(reply)), (-0.5,) * len(reply))),
        model=model,
    )
    stored = await without_secrets(record, RedactionRule(), engine)
    assert KEY not in str(stored) and stored.redactions == 2
    if model != engine.model.id:
        assert stored.tokens is None
        return
    assert stored.tokens is not None and list(stored.tokens.prompt) == render(stored.messages, (), True)
    assert list(stored.tokens.completion) == encode("Never show [redacted:api-key] to anybody.")
    counts = stored.tokens.counts
    assert counts is not None and counts.count(False) == len("[redacted:api-key]") and len(counts) == len(stored.tokens.completion)
    plain = replace(record, messages=(user("hello"),), reply={"role": "assistant", "content": "hi"})
    assert await without_secrets(plain, RedactionRule(), engine) is plain
    assert await without_secrets(record, RedactionRule(False), engine) is record


async def test_a_served_request_is_stored_with_masked_ids(tmp_path: Path) -> None:
    async with running(tmp_path, ScriptedEngine({"key": f"It was {KEY}."})) as daemon:
        answer = await daemon.chat(f"what was my key {KEY}?")
        assert KEY in answer.text, "the client gets what the model said"
        stored = daemon.services.reader.inference(answer.headers["x-reef-agent-record-id"])
    assert stored.tokens is not None and len(stored.tokens.masked) == 2
    whole = (*stored.tokens.prompt, *stored.tokens.completion)
    assert KEY.encode() not in bytes(token for token in whole if token < 256)
    assert all(value == 0 for value, counts in zip(stored.tokens.logprobs, stored.tokens.counts or (), strict=True) if not counts)
    assert Capability.TOKEN_IDS in ScriptedEngine().capabilities
