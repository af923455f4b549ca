"""Grammars are tried where they may compute for ever: the process that does is ended, and the next grammar finds another."""

from __future__ import annotations

import json
import time

import pytest

from daemon.engine.llama.structure.grammar_check import GrammarCheck
from tests.engine.walker import held


def _grammar(schema: object) -> str:
    return json.dumps({"grammars": [{"json_schema": schema}]})


ENDLESS = {"multipleOf": 999_999_937}


def test_a_grammar_that_computes_for_ever_is_a_fault_and_others_go_on() -> None:
    check = GrammarCheck(cpu_limit_s=0.2)
    began = time.monotonic()
    assert check.fault(_grammar({"type": "string"})) == ""
    assert check.fault(_grammar(ENDLESS)) == "it takes too much time"
    assert check.fault(_grammar({"type": "integer"})) == ""
    assert "not" in check.fault(_grammar({"not": {}}))
    assert time.monotonic() - began < 20
    check.close()


def test_a_grammar_that_compiled_once_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    check = GrammarCheck()
    assert check.fault(_grammar({"type": "string"})) == ""
    check.close()
    monkeypatch.setattr("daemon.engine.llama.structure.grammar_check._MODULE", "no.such.module")
    assert check.fault(_grammar({"type": "string"})) == ""


def test_constants_said_many_times_are_said_once() -> None:
    """Each repetition multiplies what llguidance has to compare."""
    began = time.process_time()
    held({"allOf": [{"properties": {"a": {"enum": ["x", "y"] * 60}}}] * 6})
    assert time.process_time() - began < 1
