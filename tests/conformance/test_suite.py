"""The suite passes a server that does everything right, and each check notices the mistake that it is there for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from daemon.conformance.agents import Fit
from daemon.conformance.outcome import Verdict
from daemon.conformance.report import Printer, as_json, print_verdicts
from daemon.conformance.suite import CHECKS, Result, run
from daemon.conformance.target import Target, url_target
from daemon.errors import BadRequest, ConfigError, EngineError, NotFound
from tests.conformance.server import NAME, WINDOW, PerfectServer

TARGET = Target("http://server/v1", "http://server/v1/chat/completions", "key")


async def tried(*faults: str, only: str = "") -> Result:
    server = PerfectServer(*faults)
    return await run(TARGET, transport=server.transport(), answer_s=5, only=frozenset(only.split()))


def of(result: Result, verdict: Verdict) -> dict[str, str]:
    return {outcome.check: outcome.sentence for outcome in result.outcomes if outcome.verdict is verdict}


async def test_a_server_that_does_everything_right_passes_every_check() -> None:
    result = await tried()
    tried_here = {check.name for check in CHECKS} - {"responses", "messages"}  # it speaks the chat wire
    assert of(result, Verdict.PASS).keys() == tried_here, [o for o in result.outcomes if o.verdict is not Verdict.PASS]
    assert result.facts.window_tokens == WINDOW and result.facts.wires == {"chat", "completions"}
    assert not result.failed


@pytest.mark.parametrize(
    ("fault", "check", "words"),
    [
        ("no usage", "reply", "usage"),
        ("ignores max_tokens", "length", "max_tokens 8"),
        ("hides the cut", "length", "'stop'"),
        ("no usage", "usage", "No usage came"),
        ("no DONE", "stream", "[DONE]"),
        ("no finish reason", "stream", "0 finish reasons"),
        ("many ids", "stream", "one id"),
        ("talks on", "stream", "after its finish reason"),
        ("streams as JSON", "stream", "application/json"),
        ("streams another text", "same", "another one"),
        ("breaks off", "at-once", "Of two requests at once one is cut off"),
        ("knows no developer", "roles", "role developer"),
        ("wants alternation", "roles", "two user messages in a row"),
        ("wants system first", "roles", "mid-conversation"),
        ("reads no parts", "contents", "content in parts"),
        ("no parts from tools", "history", "a result in parts"),
        ("no history without tools", "history", "without tools"),
        ("refuses unknown fields", "fields", "prompt_cache_key"),
        ("ignores tool_choice", "forced", "One call was to come"),
        ("breaks the schema", "forced", "do not fit its schema"),
        ("breaks the JSON", "forced", "are no JSON"),
        ("says stop after calls", "forced", "not 'tool_calls'"),
        ("calls have no id", "forced", "no id"),
        ("invents names", "forced", "not offered"),
        ("no index", "forced-stream", "no index"),
        ("no type", "forced-stream", "lacks its id, its type"),
        ("repeats names", "forced-stream", "repeats its name"),
        ("ignores required", "required", "brought no call"),
        ("mangles text", "unicode", "do not fit its schema at $.text"),
        ("takes any name", "not-a-tool", "was accepted"),
        ("one id for all", "parallel", "one id"),
        ("drops tools", "tools-read", "never shown"),
        ("writes calls as text", "auto", "does not read this model's tool calls"),
        ("breaks the JSON", "auto", "are no JSON"),
        ("arrays for objects", "json-object", "no JSON object"),
        ("forms with a fence", "json-schema", "no JSON"),
        ("forms by guess", "json-schema", "$.days"),
        ("calls overflow a rate limit", "overflow", "rate limit"),
        ("overflows with 500", "overflow", "status 500"),
        ("overflows with a riddle", "overflow", "do not know"),
        ("cuts in silence", "overflow", "in silence"),
    ],
)
async def test_each_mistake_of_a_server_is_noticed(fault: str, check: str, words: str) -> None:
    result = await tried(fault, only=f"forced {check}")
    assert words in of(result, Verdict.FAIL).get(check, ""), result.outcomes
    assert result.failed


async def test_a_call_with_tool_choice_none_is_noticed() -> None:
    result = await tried("ignores none", only="none")
    assert result.failed is False  # the model was not asked to call
    ignored = PerfectServer("ignores none")
    ignored._reply = lambda body: ("", [ignored._call(body["tools"][0], "")])  # type: ignore[method-assign]
    result = await run(TARGET, transport=ignored.transport(), only=frozenset({"none"}))
    assert "brought a tool call" in of(result, Verdict.FAIL)["none"]


@pytest.mark.parametrize(
    ("fault", "check", "words"),
    [
        ("never calls", "auto", "called no tool"),
        ("notes unread calls never calls", "auto", "could not be read"),
        ("invents names", "choice", "not offered"),
        ("cannot write code", "edit", "does not write the block"),
        ("calls once", "parallel", "made one"),
        ("ignores results", "result", "does not answer with it"),
        ("few tools", "many-tools", "do not fit"),
    ],
)
async def test_what_the_model_does_not_manage_is_told_apart_and_is_no_failure(fault: str, check: str, words: str) -> None:
    result = await tried(*(["notes unread calls", "never calls"] if " never" in fault else [fault]), only=check)
    assert words in of(result, Verdict.WEAK).get(check, ""), result.outcomes
    assert not result.failed


async def test_what_is_not_offered_and_said_so_is_no_failure() -> None:
    result = await tried("forces no calls", "offers no forms")
    assert of(result, Verdict.ABSENT).keys() == {"forced", "json-object", "json-schema"}
    assert "forced-stream" in of(result, Verdict.SKIPPED)
    assert not result.failed


async def test_a_server_that_gives_no_reply_or_falls_silent_is_not_asked_fifty_times() -> None:
    down = PerfectServer("is down")
    result = await run(TARGET, transport=down.transport())
    assert of(result, Verdict.FAIL).keys() == {"reply"} and len(down.bodies) == 1
    silent = PerfectServer("falls silent")
    result = await run(TARGET, transport=silent.transport(), answer_s=0.02)
    assert len(silent.bodies) < 6 and "not answered in time" in of(result, Verdict.SKIPPED)["overflow"]


async def test_a_server_that_goes_down_is_told_of_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daemon.conformance.client._LOOK_AGAIN_S", (0.0, 0.0))
    result = await tried("dies of unicode")
    assert of(result, Verdict.FAIL) == {"unicode": "The connection broke: Server disconnected without sending a response."}
    assert of(result, Verdict.SKIPPED)["overflow"] == "Not tried: the server is gone since the check unicode."
    assert all(agent.fit is not Fit.WORKS for agent in result.agents), "nobody works on a server that goes down"


async def test_replies_that_always_differ_are_not_compared() -> None:
    assert "another reply each time" in of(await tried("never the same", only="same"), Verdict.SKIPPED)["same"]


async def test_a_window_that_is_not_told_is_learned_from_the_refusal() -> None:
    result = await tried("tells no window", only="overflow")
    assert result.facts.window_tokens == WINDOW


async def test_agents_are_judged_by_wire_window_protocol_and_model() -> None:
    def fits(result: Result) -> dict[str, Fit]:
        return {found.agent: found.fit for found in result.agents}

    perfect = await tried()
    assert fits(perfect)["aider"] is fits(perfect)["pi"] is Fit.WORKS
    assert fits(perfect)["codex"] is Fit.NO and "responses" in next(a for a in perfect.agents if a.agent == "codex").reasons[0]
    assert fits(perfect)["opencode"] is Fit.NO, "its prompt alone is larger than the window"
    assert fits(perfect)["cline"] is Fit.LIMITED, "8,192 tokens are tight for it"
    weak = await tried("never calls", "tells no window", only="wires reply stream fields contents history auto-protocol auto choice")
    assert fits(weak) == {**dict.fromkeys(fits(weak), Fit.LIMITED), "aider": Fit.WORKS, "codex": Fit.NO, "Claude Code": Fit.NO}
    parts = await tried("no parts from tools", "tells no window", only="wires history")
    assert fits(parts)["qwen-code"] is Fit.NO and fits(parts)["aider"] is Fit.WORKS


async def test_a_server_that_is_away_or_lists_no_such_model_is_a_sentence() -> None:
    with pytest.raises(EngineError, match="does not answer"):
        await run(Target("http://127.0.0.1:9/v1", "http://127.0.0.1:9/v1/chat/completions"), answer_s=5)
    with pytest.raises(NotFound, match="lists no model other"):
        await run(Target(TARGET.url, TARGET.chat_url, model="other"), transport=PerfectServer().transport())


def test_a_target_needs_a_url_and_the_key_that_it_names() -> None:
    assert url_target("http://h/v1/", "m", "", {}).chat_url == "http://h/v1/chat/completions"
    assert "secret" not in repr(url_target("http://h/v1", "m", "KEY", {"KEY": "secret"}))
    with pytest.raises(ConfigError, match="KEY"):
        url_target("http://h/v1", "m", "KEY", {})
    with pytest.raises(BadRequest, match="http"):
        url_target("file:///etc/passwd", "m", "", {})


async def test_the_report_for_people_and_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    server = PerfectServer("never calls", "repeats names")
    result = await run(TARGET, Printer(TARGET), transport=server.transport())
    print_verdicts(result)
    said = capsys.readouterr().out
    assert f"model {NAME}, a window of 8,192 tokens" in said
    assert "✗ FAIL     forced-stream" in said and "~ weak     auto" in said and "Agents" in said
    assert "key" not in said.split("\n")[0]
    parsed = json.loads(as_json(TARGET, result))
    assert parsed["ok"] is False and {"check", "group", "verdict", "sentence", "seconds"} == set(parsed["checks"][0])
    assert {agent["fit"] for agent in parsed["agents"]} <= {"works", "limited", "no"}


def test_every_agent_needs_only_checks_that_there_are() -> None:
    from daemon.conformance.agents import AGENTS

    known = {check.name for check in CHECKS}
    assert all({*agent.needs, *agent.uses, *agent.model} <= known for agent in AGENTS)
    assert len(known) == len(CHECKS)


def test_nothing_of_ours_is_needed_by_the_suite() -> None:
    """It is about any server: no engine, no gateway."""
    sources = (Path(__file__).parents[2] / "daemon" / "conformance").rglob("*.py")
    assert not [path for path in sources if "daemon.engine" in path.read_text() or "daemon.gateway" in path.read_text()]
