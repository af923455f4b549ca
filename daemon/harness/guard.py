"""The guard before the gate: what in a changed harness a person must see before it may serve.

It reads only what is new against the tree that serves. It finds the known ways in which text turns an agent against its
user; it is no proof of harmlessness, and wording alone can pass it. What it finds is quarantined, never mended.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass

from daemon.harness_tree import HarnessTree
from daemon.records import JSON


@dataclass(frozen=True, slots=True)
class Finding:
    """`line` counts from 1; `span` is the offending text, cut to 200 characters, invisible ones escaped."""

    path: str
    line: int
    span: str
    reason: str


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
_PERMISSION_KEYS = re.compile(r"permission|allow|approv|trust|sandbox|hook|dangerous|bypass", re.IGNORECASE)
_EXECUTABLE = re.compile(r"^(?:extensions|hooks|plugins)/|(?:^|/)scripts/|\.(?:sh|bash|zsh|py|js|mjs|cjs|ts|rb|pl|ps1|exe)$")
_UNUSUAL = re.compile(r"[^\x20-\x7e\n\t\r]")
_EMOJI_MODIFIERS = "\ufe0f\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff"
_ALLOWED_CONTROLS = "\n\t\r"
_SPAN_CHARACTERS = 200
_MAX_FINDINGS = 200  # a file


def inspect(before: HarnessTree, after: HarnessTree) -> list[Finding]:
    """What a person must look at in `after` that `before` did not have; empty: the gate may decide."""
    changed = {path: text for path, text in sorted(after.files.items()) if before.files.get(path) != text}
    found = [finding for path, text in changed.items() for finding in _scan(path, text)]
    if found:
        known = {(finding.reason, finding.span) for path, text in before.files.items() for finding in _scan(path, text)}
        found = [finding for finding in found if (finding.reason, finding.span) not in known]
    executable = "executable: it never activates without a person's yes"
    found += [Finding(path, 1, _shown(text), executable) for path, text in changed.items() if _EXECUTABLE.search(path)]
    return found


def _scan(path: str, text: str) -> Iterator[Finding]:
    seen: set[tuple[str, str]] = set()
    for finding in _scan_all(path, text):
        key = (finding.reason, finding.span)
        if key in seen:
            continue
        if len(seen) == _MAX_FINDINGS:
            yield Finding(
                path, 1, f"sha256 {hashlib.sha256(text.encode(errors='replace')).hexdigest()}", f"more than {_MAX_FINDINGS} findings"
            )
            return
        seen.add(key)
        yield finding


def _scan_all(path: str, text: str) -> Iterator[Finding]:
    yield from _scan_text(path, text, None)
    if not path.endswith(".json"):
        return
    try:
        value: JSON = json.loads(text)
    except (ValueError, RecursionError):
        return
    for name, leaf in _leaves(value, ""):
        # the string as an agent reads it: an escape such as \u202e hides nothing here
        line = _line_of(text, name.rsplit(".", 1)[-1])
        if isinstance(leaf, str):
            yield from _scan_text(path, leaf, line)
        if path != "serving.json" and _PERMISSION_KEYS.search(name):
            yield Finding(path, line, _shown(f"{name}: {json.dumps(leaf)}"), "widened permissions")


def _scan_text(path: str, text: str, line: int | None) -> Iterator[Finding]:
    """`line` None: count it."""
    ends = [index for index, character in enumerate(text) if character == "\n"]
    for reason, start, span in _matches(text):
        yield Finding(path, line or bisect_left(ends, start) + 1, _shown(span), reason)
    for match in _UNUSUAL.finditer(text):
        index = match.start()
        if _is_invisible(match[0]) and not _joins_emoji(text, index):
            around = text[max(0, index - 20) : index + 20].replace("\n", " ")
            yield Finding(path, line or bisect_left(ends, index) + 1, _shown(around), "an invisible or bidirectional character")


def _matches(text: str) -> Iterator[tuple[str, int, str]]:
    """Look at the text, and at it with compatibility forms folded and invisible characters taken out."""
    for reason, pattern in _PATTERNS:
        for match in pattern.finditer(text):
            yield reason, match.start(), match[0]
    folded = text if text.isascii() else unicodedata.normalize("NFKC", "".join(one for one in text if not _is_invisible(one)))
    if folded != text:
        for reason, pattern in _PATTERNS:
            for match in pattern.finditer(folded):
                yield reason, 0, match[0]


def _is_invisible(character: str) -> bool:
    if character in _ALLOWED_CONTROLS:
        return False
    code = ord(character)
    return (
        unicodedata.category(character) in ("Cf", "Cc", "Co", "Zl", "Zp")
        or code in (0x115F, 0x1160, 0x3164, 0xFFA0, 0x2800)
        or 0xE0100 <= code <= 0xE01EF  # variation selectors beyond those of emoji carry hidden bytes
    )


def _joins_emoji(text: str, index: int) -> bool:
    """The zero-width joiner inside an emoji such as a person at a computer."""
    if text[index] != "\u200d":
        return False
    before = text[max(0, index - 4) : index].rstrip(_EMOJI_MODIFIERS)[-1:]
    after = text[index + 1 : index + 2]
    return bool(before and after) and unicodedata.category(before) == unicodedata.category(after) == "So"


def _leaves(value: JSON, name: str) -> Iterator[tuple[str, bool | int | float | str | None]]:
    if isinstance(value, dict):
        for key, one in value.items():
            yield name, key
            yield from _leaves(one, f"{name}.{key}".lstrip("."))
    elif isinstance(value, list):
        for one in value:
            yield from _leaves(one, name)
    else:
        yield name, value


def _line_of(text: str, key: str) -> int:
    place = text.find(f'"{key}"') if key else -1
    return text.count("\n", 0, place) + 1 if place >= 0 else 1


def _shown(span: str) -> str:
    cut = span.strip()[:_SPAN_CHARACTERS]
    return "".join(f"\\u{{{ord(one):x}}}" if _is_invisible(one) else one for one in cut)
