"""Secrets out of texts before they are stored: each becomes `[redacted:kind]`.

Only spans that look like a secret by form or by their label are taken; git hashes, UUIDs and content ids are not.
Redacting twice changes nothing more.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from daemon.records import JSON, Inference, JSONObject, Message

_SHORTEST = 8  # no secret is shorter
_WORTH_REMEMBERING = 32
_SEEN = 50_000

# Kind, the literals of which one must occur (a fast test before the pattern), and the pattern. The secret is group
# "secret" (or "bare") where there is one, else the whole match.
_RULES: tuple[tuple[str, tuple[str, ...], re.Pattern[str]], ...] = (
    (
        "private-key",
        ("PRIVATE KEY",),
        re.compile(
            r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----|\Z)", re.S
        ),
    ),
    ("jwt", ("eyJ",), re.compile(r"eyJ(?<![A-Za-z0-9_-]eyJ)[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}")),
    (
        "github-token",
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
        re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{30,255}|github_pat_[A-Za-z0-9_]{40,255})\b"),
    ),
    ("gitlab-token", ("glpat-",), re.compile(r"glpat-[A-Za-z0-9_-]{20,}")),
    ("slack-token", ("xox",), re.compile(r"xox(?<![A-Za-z0-9]xox)[abposr]-[A-Za-z0-9-]{10,}")),
    ("aws-key-id", ("AKIA", "ASIA"), re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b")),
    ("google-key", ("AIza",), re.compile(r"AIza(?<![A-Za-z0-9]AIza)[A-Za-z0-9_-]{35}")),
    ("huggingface-token", ("hf_",), re.compile(r"hf_(?<![A-Za-z0-9]hf_)[A-Za-z0-9]{30,}\b")),
    ("npm-token", ("npm_",), re.compile(r"npm_(?<![A-Za-z0-9]npm_)[A-Za-z0-9]{36}\b")),
    ("api-key", ("sk-",), re.compile(r"sk-(?<![A-Za-z0-9_-]sk-)(?=[A-Za-z_-]*\d)[A-Za-z0-9_-]{20,}")),
    ("api-key", ("k_live_", "k_test_"), re.compile(r"\b[sr]k_(?:live|test)_[A-Za-z0-9]{16,}")),
    ("bearer-token", ("earer ", "EARER "), re.compile(r"\b[Bb](?:earer|EARER) +(?P<secret>[A-Za-z0-9._~+/-]{16,}=*)")),
    ("url-password", ("://",), re.compile(r"://[^\s:/@\"']{1,64}:(?P<secret>[^\s/@\"'\[]{3,256})@")),
    (
        "aws-secret",
        ("secret", "SECRET", "Secret"),
        re.compile(r"aws_?secret_?(?:access_?)?key[\"']?\s*[=:]\s*[\"']?(?P<secret>[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+])", re.I),
    ),
    (
        "env",  # KEY=value whose name says that the value is secret: .env lines, and the same on a command line
        ("SECRET", "TOKEN", "PASSW", "API_KEY", "APIKEY", "PRIVATE_KEY", "ACCESS_KEY", "CREDENTIAL"),
        re.compile(
            r"(?:SECRET|TOKEN|PASSWORD|PASSWD|API_?KEY|PRIVATE_KEY|ACCESS_KEY|CREDENTIALS?)[A-Z0-9_]{0,32}="
            r"(?:(?P<quote>[\"'])(?![$<\[{])(?P<secret>[^\s\"']{6,})(?P=quote)"
            r"|(?P<bare>(?!\d+\b)[^\s\"'`$<>(){}\[\]\\;,&|]{6,})(?=[\s\"'`\\;,&|]|\Z))"
        ),
    ),
    (
        "secret",  # "api_key": "…", password = '…': quoted values beside a telling name
        (
            "api_key",
            "api-key",
            "apikey",
            "s_token",
            "s-token",
            "accesstoken",
            "h_token",
            "h-token",
            "authtoken",
            "client",
            "secret",
            "passw",
        ),
        re.compile(
            r"(?:api[_-]?key|access[_-]?token|auth[_-]?token|refresh[_-]?token|client[_-]?secret|secret[_-]?key|passw(?:or)?d)"
            r"[\"']?\s*[=:]\s*(?P<quote>[\"'])(?P<secret>[^\s\"'$<{\[][^\s\"']{7,})(?P=quote)",
            re.I,
        ),
    ),
)


_PREPARED = tuple((kind, literals, pattern, bool(pattern.flags & re.I)) for kind, literals, pattern in _RULES)


class _Seen:
    """Texts found clean, by length and hash (keyed anew in each process): a conversation resends its history with every turn."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._hashes: OrderedDict[tuple[int, int], None] = OrderedDict()

    def __contains__(self, text: str) -> bool:
        with self._lock:
            return (len(text), hash(text)) in self._hashes

    def add(self, text: str) -> None:
        with self._lock:
            self._hashes[len(text), hash(text)] = None
            if len(self._hashes) > _SEEN:
                self._hashes.popitem(last=False)


_seen = _Seen()


@dataclass(frozen=True, slots=True)
class RedactionRule:
    """Where secrets are replaced before anything is stored: everywhere but in the scenarios that say otherwise."""

    default: bool = True
    scenarios: Mapping[str, bool] = field(default_factory=dict)

    def applies(self, scenario: str) -> bool:
        return self.scenarios.get(scenario, self.default)


def redact_text(text: str) -> tuple[str, int]:
    """`text` without secrets, and how many spans were replaced."""
    long = len(text) >= _WORTH_REMEMBERING
    if len(text) < _SHORTEST or (long and text in _seen):
        return text, 0
    redacted, count = _apply_rules(text)
    if long and not count:
        _seen.add(text)
    return redacted, count


def _apply_rules(text: str) -> tuple[str, int]:
    count = 0
    lowered = text.lower()
    for kind, literals, pattern, any_case in _PREPARED:
        where = lowered if any_case else text
        for literal in literals:
            if literal in where:
                break
        else:
            continue
        text, replaced = pattern.subn(lambda match, kind=kind: _replace(match, kind), text)  # type: ignore[misc]  # mypy: default in a lambda
        if replaced:
            count += replaced
            lowered = text.lower()
    return text, count


def redact_json(value: JSON) -> tuple[JSON, int]:
    """The same for every string inside a JSON value; keys are left alone. Unchanged values are returned as they are."""
    if isinstance(value, str):
        return redact_text(value)
    if isinstance(value, list):
        items = [redact_json(item) for item in value]
        count = sum(found for _, found in items)
        return ([item for item, _ in items], count) if count else (value, 0)
    if isinstance(value, dict):
        fields = {name: redact_json(item) for name, item in value.items()}
        count = sum(found for _, found in fields.values())
        return ({name: item for name, (item, _) in fields.items()}, count) if count else (value, 0)
    return value, 0


def redact_object(value: JSONObject) -> tuple[JSONObject, int]:
    fields = {name: redact_json(item) for name, item in value.items()}
    count = sum(found for _, found in fields.values())
    return ({name: item for name, (item, _) in fields.items()}, count) if count else (value, 0)


def redact_messages(messages: Sequence[Message]) -> tuple[tuple[Message, ...], int]:
    """Messages without secrets, tool arguments and reasoning included, and how many spans were replaced."""
    items = [redact_object(message) for message in messages]
    return tuple(message for message, _ in items), sum(count for _, count in items)


def redact(inference: Inference) -> Inference:
    """Both sides of an inference without secrets.

    When anything was replaced the token trace is dropped: its ids would spell the secret, and they no longer
    reproduce the text.
    """
    messages, found = redact_messages(inference.messages)
    effective, found_effective = (None, 0) if inference.effective_messages is None else redact_messages(inference.effective_messages)
    reply, found_reply = redact_object(inference.reply)
    request, found_request = redact_object(inference.request)
    error, found_error = redact_text(inference.error)
    note, found_note = redact_text(inference.note)
    count = found + found_effective + found_reply + found_request + found_error + found_note
    if not count:
        return inference
    return replace(
        inference,
        messages=messages,
        effective_messages=effective,
        reply=reply,
        request=request,
        error=error,
        note=note,
        tokens=None,
        redactions=inference.redactions + count,
    )


def _replace(match: re.Match[str], kind: str) -> str:
    whole = match.group()
    if "secret" not in match.re.groupindex:
        return f"[redacted:{kind}]"
    start, end = match.span("secret")
    if start < 0:
        start, end = match.span("bare")
    offset = match.start()
    return f"{whole[: start - offset]}[redacted:{kind}]{whole[end - offset :]}"
