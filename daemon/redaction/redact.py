"""Secrets out of everything before it is stored: each becomes `[redacted:kind]`. See `daemon.redaction` for what counts as one.

The functions here apply the built-in rules; a `Redactor` of one's own has a user's patterns and exceptions too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from daemon.fingerprint import History
from daemon.records import Inference, JSONObject, Report
from daemon.redaction.redactor import Redactor, Secret

BUILT_IN = Redactor()


@dataclass(frozen=True, slots=True)
class RedactionRule:
    """Where secrets are replaced before anything is stored: everywhere but in the scenarios that say otherwise."""

    default: bool = True
    scenarios: Mapping[str, bool] = field(default_factory=dict)
    redactor: Redactor = BUILT_IN
    own: Mapping[str, Redactor] = field(default_factory=dict)
    """Scenarios with patterns of their own."""

    def applies(self, scenario: str) -> bool:
        return self.scenarios.get(scenario, self.default)

    def of(self, scenario: str) -> Redactor:
        """What redacts the scenario's texts, if it `applies`."""
        return self.own.get(scenario, self.redactor)

    def redacted(self, inference: Inference, found: list[Secret] | None = None, known_as: History | None = None) -> Inference:
        """The record as it may be stored; `found` collects what was replaced, `known_as` is its messages' history."""
        return redact(inference, self.of(inference.scenario), found, known_as) if self.applies(inference.scenario) else inference


def redact_text(text: str) -> tuple[str, int]:
    """`text` without secrets, and how many spans were replaced."""
    return BUILT_IN.text(text)


def redact(
    inference: Inference, redactor: Redactor = BUILT_IN, found: list[Secret] | None = None, known_as: History | None = None
) -> Inference:
    """Both sides of an inference without secrets; the same object where there is none.

    When anything was replaced the token trace is dropped: its ids would spell the secret. `daemon.redaction.tokens` makes
    one that does not, from what `found` collects.
    """
    messages, in_messages = redactor.messages(inference.messages, found, known_as)
    effective, in_effective = (None, 0)
    if inference.effective_messages is not None:
        effective, in_effective = redactor.messages(inference.effective_messages, found)
    reply, in_reply = redactor.object(inference.reply, found)
    request, in_request = redactor.fields(inference.request, found)
    tags, in_tags = redact_tags(inference.tags, redactor, found) if inference.tags else (inference.tags, 0)
    error, in_error = redactor.text(inference.error, found)
    note, in_note = redactor.text(inference.note, found)
    count = in_messages + in_effective + in_reply + in_request + in_tags + in_error + in_note
    if not count:
        return inference
    return replace(
        inference,
        messages=messages,
        effective_messages=effective,
        reply=reply,
        request=request,
        tags=tags,
        error=error,
        note=note,
        tokens=None,
        redactions=inference.redactions + count,
    )


def redact_tags(tags: Mapping[str, str], redactor: Redactor, found: list[Secret] | None = None) -> tuple[Mapping[str, str], int]:
    plain: JSONObject = dict(tags)
    texts, count = redactor.object(plain, found)
    return ({name: str(text) for name, text in texts.items()}, count) if count else (tags, 0)


def redact_report(report: Report, redactor: Redactor = BUILT_IN) -> Report:
    """A report without secrets in what it says."""
    feedback, _ = redactor.json(report.feedback)
    if feedback is not None and not isinstance(feedback, str | dict):
        feedback = report.feedback
    return replace(report, feedback=feedback, metadata=redactor.object(report.metadata)[0])
