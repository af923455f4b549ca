"""What a turn's feedback, its fate and its next turn say of it, cheaply: shown beside the record, never instead of it.

    scored, corrected, commented     reports on it
    good, bad                        the user typed /good or /bad into the conversation
    objected, restated, edited       the user said no, asked the same again, changed the reply in the history
    tool_failed                      a tool that it called failed
    tests_failed, tests_passed       a test command that it ran; tests_mended: it passed after the one before had failed
    aborted, retried                 the client hung up, or the user stopped the run; the same request came again
    succeeded                        the session ends here, after passing tests or thanks

`observe` is stored when the next turn arrives, and can be made again from the two requests at any time.
"""

from __future__ import annotations

from collections.abc import Sequence

from daemon.experience.sessions.keys import text_of
from daemon.experience.sessions.tool_results import last_tests, outcomes
from daemon.experience.sessions.user_words import edits, mark, objects, own_words, restates, thanks
from daemon.records import Inference, Message, Report, Status

OBSERVED = ("good", "bad", "objected", "restated", "edited", "tool_failed", "tests_failed", "tests_passed", "tests_mended")


def observe(messages: Sequence[Message], added: int, reply: Message | None = None) -> tuple[str, ...]:
    """What a request says of the turn that it follows.

    Args:
        messages: the whole request.
        added: where in it what is new begins, behind the followed turn's reply.
        reply: the reply as it was given, where the request holds another one in its place.
    """
    results = outcomes(messages, added)
    tests = [outcome.tests_passed for outcome in results if outcome.tests_passed is not None]
    user = next((message for message in messages[added:] if message.get("role") == "user"), None)
    text = own_words(user) if user is not None else ""
    names: list[str] = []  # in the order of `OBSERVED`
    if text:
        if marked := mark(text):
            names.append(marked)
        if objects(text):
            names.append("objected")
        if not results and _asks_again(text, messages[:added]):
            names.append("restated")
    if reply is not None and _edited(messages[added - 1] if added else {}, reply):
        names.append("edited")
    if any([outcome.failed for outcome in results]):
        names.append("tool_failed")
    if tests:
        names.append("tests_passed" if tests[-1] else "tests_failed")
        if tests[-1] and (False in tests or last_tests(messages[:added]) is False):
            names.append("tests_mended")
    return tuple(names)


def _asks_again(text: str, earlier: Sequence[Message]) -> bool:
    before = next((message for message in reversed(earlier) if message.get("role") == "user"), None)
    return before is not None and restates(text, own_words(before))


def signals_of(
    inference: Inference, reports: Sequence[Report], retries: int, observed: Sequence[str] = (), *, last: bool = False
) -> tuple[str, ...]:
    """Those of the module that hold, in its order. `last`: nothing of its session goes on from it."""
    present = {
        "scored": any(report.score is not None for report in reports),
        "corrected": any(report.correction is not None for report in reports),
        "commented": any(report.feedback is not None and report.correction is None for report in reports),
        **{name: name in observed for name in OBSERVED},
        "aborted": inference.status is Status.ABORTED or any(report.metadata.get("outcome") == "aborted" for report in reports),
        "retried": retries > 0,
        "succeeded": last and _ends_well(inference),
    }
    return tuple(name for name, there in present.items() if there)


def _ends_well(inference: Inference) -> bool:
    """A whole reply without calls, after a test command that passed or after thanks."""
    if inference.status is not Status.OK or inference.reply.get("tool_calls") or inference.finish_reason != "stop":
        return False
    last = inference.messages[-1] if inference.messages else {}
    if last.get("role") == "user":
        return thanks(own_words(last))
    return last_tests(inference.messages) is True


def _edited(echo: Message, reply: Message) -> bool:
    plain = echo.get("role") == "assistant" and not echo.get("tool_calls") and not reply.get("tool_calls")
    return plain and edits(text_of(echo.get("content")), text_of(reply.get("content")))
