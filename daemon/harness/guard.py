"""The guard before the gate: what in a changed harness a person must see before it may serve.

It reads only what is new against the tree that serves. It finds the known ways in which text turns an agent against its
user; it is no proof of harmlessness, and wording alone can pass it. What it finds is quarantined, never mended.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping
from itertools import chain

from daemon.harness.finding import Finding, is_invisible
from daemon.harness.programs import RUNS, is_program, started
from daemon.harness.settings_guard import inspect_settings, line_of, read, texts
from daemon.harness_tree import SERVING_HINTS_PATH, HarnessTree

_CREDENTIALS = (
    r"\.ssh/|id_(?:rsa|ed25519|ecdsa)\b|\.aws/|\.netrc\b|\.npmrc\b|\.pypirc\b|\.git-credentials\b|\.kube/config|\.docker/config|\.gnupg\b"
    r"|(?<![\w.])\.env(?:\.\w+)?\b|/etc/(?:shadow|passwd|sudoers)|\bkeychain\b|tokens/(?:owner|client)\b|credentials\.json|\.reef/tokens"
    r"|\b(?:AWS_SECRET_ACCESS_KEY|GITHUB_TOKEN|OPENAI_API_KEY|ANTHROPIC_API_KEY|REEF_TOKEN)\b"
)
_B64 = r"[A-Za-z0-9+/_-]"
_INTERPRETER = r"(?:ba|z|da|k|fi)?sh|python[\d.]*|perl|ruby|node|deno|bun|php|osascript|powershell|pwsh|iex"
_INSTRUCTIONS = r"(?:instructions?|prompts?|rules?|directions?|guidelines?|messages?|constraints?)"
_PATTERNS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (reason, re.compile(pattern, re.IGNORECASE))
    for reason, pattern in (
        ("a new URL", r"\b(?:[a-z][a-z0-9+.-]{1,15}://|www\.)[^\s<>\"'`)\]}]{3,}"),
        (
            "a pipe into an interpreter",
            rf"\|\s*(?:sudo\s+|env\s+|exec\s+)*(?:/\S*/)?(?:{_INTERPRETER})\b[^\n]*"
            rf"|\b(?:{_INTERPRETER})\s+(?:-\w+\s+)*[\"']?(?:<\(|\$\(|`)[^\n]*"
            r"|\beval\s+[\"']?(?:\$\(|`)[^\n]*|\b(?:source|\.)\s+<\([^\n]*",
        ),
        ("a place of credentials", rf"(?:{_CREDENTIALS})\S{{0,80}}"),
        (
            "a file outside of the project that is read in",
            r"(?<![\w@`.])@(?:~|\.\./|/(?:etc|home|root|users|var|private|tmp|opt|usr|proc|sys|mnt|volumes|srv|dev|run)\b)[^\s`]{0,120}",
        ),
        ("a base64 block", rf"(?-i:(?<!{_B64})(?={_B64}*[A-Z])(?={_B64}*[a-z])(?={_B64}*[0-9]){_B64}{{60,}}={{0,2}})"),
        (
            "widened permissions",
            r"\bchmod\s+(?:-R\s+)?(?:0?[0-7]?777|a\+\w*[wx]|u\+s)[^\n]*|\bsudo\s+\S[^\n]*|--(?:dangerously|yolo|no-sandbox|privileged)[\w-]*"
            r"|\bbypass(?:ing)?[ _-]?(?:permissions?|approvals?|sandbox)\w*|\bdanger-full-access\b|\bskip[_-]?permissions?\w*"
            r"|\bauto[_-]?approve\w*|\b(?:without|never)\s+ask(?:ing)?\s+(?:for\s+)?(?:permission|approval|confirmation)\b",
        ),
        (
            "an order to ignore instructions",
            rf"\b(?:ignore|disregard|forget|override|bypass)\s+(?:\w+\s+){{0,4}}?(?:previous|prior|earlier|above|preceding|all|system|your|other)"
            rf"\s+(?:\w+\s+){{0,3}}?{_INSTRUCTIONS}\b"
            r"|\b(?:do\s+not|don't|never)\s+(?:tell|inform|mention\s+(?:this\s+)?to|reveal\s+(?:this\s+)?to)\s+(?:this\s+to\s+)?the\s+user\b"
            r"|</?(?:system|im_start|im_end)>|<\|im_(?:start|end)\|>|\bnew\s+system\s+prompt\b",
        ),
    )
)
_UNUSUAL = re.compile(r"[^\x20-\x7e\n\t\r]")
_EMOJI_MODIFIERS = "\ufe0f\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff"
_MAX_FINDINGS = 200  # a file
_MAX_ALL = 2000
GONE = "an executable is taken away"
PERSONAL = "takes away what a person wrote"


def inspect(before: HarnessTree, after: HarnessTree, personal: Mapping[str, Collection[str]] | None = None) -> list[Finding]:
    """What a person must look at in `after` that `before` did not have; empty: the gate may decide.

    Args:
        personal: lines that a person wrote, by path: that they go is told too.
    """
    found = list(_inspect(before, after, personal or {}))
    if len(found) <= _MAX_ALL:
        return found
    rest = "\n".join(f"{one.path}:{one.line}: {one.reason} {one.sha256}" for one in found[_MAX_ALL:])
    last = found[_MAX_ALL]
    executable = any(one.executable for one in found[_MAX_ALL:])
    return [*found[:_MAX_ALL], Finding.of(last.path, last.line, rest, f"{len(found) - _MAX_ALL} more findings", executable=executable)]


def _inspect(before: HarnessTree, after: HarnessTree, personal: Mapping[str, Collection[str]]) -> Iterator[Finding]:
    changed = {path: text for path, text in sorted(after.files.items()) if before.files.get(path) != text}
    found = [finding for path, text in changed.items() for finding in _scan(path, text)]
    if found:
        known = {(one.reason, one.sha256) for path, text in before.files.items() for one in _scan(path, text)}
        yield from (one for one in found if (one.reason, one.sha256) not in known)
    for path, text in changed.items():
        if is_program(path, text):
            yield Finding.of(path, 1, text, RUNS, executable=True)
        own = {(one.reason, one.sha256) for one in started(path, before.files.get(path, ""))}  # elsewhere nobody said yes to it
        yield from _bounded(path, text, (one for one in started(path, text) if (one.reason, one.sha256) not in own))
    for path in sorted({*before.files, *after.files}):
        old, new = before.files.get(path), after.files.get(path)
        if old == new:
            continue
        if path.endswith(".json") and path != SERVING_HINTS_PATH:
            yield from _bounded(path, new or "", inspect_settings(path, old, new))
        if old is not None and new is None and is_program(path, old):
            yield Finding.of(path, 1, old, GONE)
    yield from _taken(before, after, personal)


def _taken(before: HarnessTree, after: HarnessTree, personal: Mapping[str, Collection[str]]) -> Iterator[Finding]:
    """A line that a person wrote and that no file says any more."""
    left = {line.strip() for text in after.files.values() for line in text.split("\n")} if personal else set()
    for path, lines in sorted(personal.items()):
        gone = {line.strip() for line in lines} - left
        for number, line in enumerate(before.files.get(path, "").split("\n"), start=1):
            if line.strip() in gone:
                gone.discard(line.strip())
                yield Finding.of(path, number, line.strip(), PERSONAL)


def _bounded(path: str, text: str, findings: Iterator[Finding]) -> Iterator[Finding]:
    """Each once, and at most so many of a file that a person can look at them."""
    seen: set[tuple[str, str]] = set()
    for finding in findings:
        key = (finding.reason, finding.sha256)
        if key in seen:
            continue
        if len(seen) == _MAX_FINDINGS:
            digest = hashlib.sha256(text.encode(errors="replace")).hexdigest()
            executable = finding.executable or any(one.executable for one in findings)
            yield Finding.of(path, 1, f"sha256 {digest}", f"more than {_MAX_FINDINGS} findings", executable=executable)
            return
        seen.add(key)
        yield finding


def _scan(path: str, text: str) -> Iterator[Finding]:
    return _bounded(path, text, _scan_all(path, text))


def _scan_all(path: str, text: str) -> Iterator[Finding]:
    yield from _scan_text(path, text, None)
    if path.endswith(".json"):
        for name, one in texts(read(text)):
            # the string as an agent reads it: an escape such as \u202e hides nothing here
            yield from _scan_text(path, one, line_of(text, name))


def _scan_text(path: str, text: str, line: int | None) -> Iterator[Finding]:
    """`line` None: count it. The same span is told once, where it stands first."""
    ends = [index for index, character in enumerate(text) if character == "\n"]
    seen: set[tuple[str, str]] = set()
    for reason, start, span in chain(_matches(text), _hidden(text)):
        if (reason, span) not in seen:
            seen.add((reason, span))
            yield Finding.of(path, line or bisect_left(ends, start) + 1, span, reason)


def _hidden(text: str) -> Iterator[tuple[str, int, str]]:
    for match in _UNUSUAL.finditer(text):
        index = match.start()
        if is_invisible(match[0]) and not _joins_emoji(text, index):
            around = text[max(0, index - 20) : index + 20].replace("\n", " ")
            yield "an invisible or bidirectional character", index, around


def _matches(text: str) -> Iterator[tuple[str, int, str]]:
    """Look at the text, and at it with compatibility forms folded and invisible characters taken out."""
    for reason, pattern in _PATTERNS:
        for match in pattern.finditer(text):
            yield reason, match.start(), match[0]
    folded = text if text.isascii() else unicodedata.normalize("NFKC", "".join(one for one in text if not is_invisible(one)))
    if folded != text:
        for reason, pattern in _PATTERNS:
            for match in pattern.finditer(folded):
                yield reason, 0, match[0]


def _joins_emoji(text: str, index: int) -> bool:
    """The zero-width joiner inside an emoji such as a person at a computer."""
    if text[index] != "\u200d":
        return False
    before = text[max(0, index - 4) : index].rstrip(_EMOJI_MODIFIERS)[-1:]
    after = text[index + 1 : index + 2]
    return bool(before and after) and unicodedata.category(before) == unicodedata.category(after) == "So"
