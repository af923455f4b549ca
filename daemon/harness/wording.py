"""Words that turn an agent against its user, as far as their form gives them away: by pattern, and by characters that nobody sees.

A text is read as it stands, with look-alikes folded, and with its marks taken out, as a model reads it. No text takes much longer than
another of its length.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from daemon.harness.finding import Lines, is_invisible

_CREDENTIALS = (
    r"\.ssh/|id_(?:rsa|ed25519|ecdsa)\b|\.aws/|\.netrc\b|\.npmrc\b|\.pypirc\b|\.git-credentials\b|\.kube/config|\.docker/config|\.gnupg\b"
    r"|(?<![\w.])\.env(?:\.\w+)?\b|/etc/(?:shadow|passwd|sudoers)|\bkeychain\b|tokens/(?:owner|client)\b|credentials\.json|\.reef/tokens"
    r"|\.config/(?:gh|gcloud|git/credentials)\b|\.azure/|\.pgpass\b|\.(?:bash|zsh)_history\b|/proc/(?:self|\d+)/environ|\blogin data\b"
    r"|\b(?:AWS_SECRET_ACCESS_KEY|GITHUB_TOKEN|GH_TOKEN|OPENAI_API_KEY|ANTHROPIC_API_KEY|ANTHROPIC_AUTH_TOKEN|REEF_TOKEN|HF_TOKEN|NPM_TOKEN)\b"
)
_B64 = r"[A-Za-z0-9+/_-]"
_MIXED_B64 = rf"(?=\w*[A-Z])(?=\w*[a-z])(?=\w*\d){_B64}{{16,90}}"
_INTERPRETER = r"(?:ba|z|da|k|fi|c|tc|a)?sh|python[\d.]*|perl|ruby|node|deno|bun|php|osascript|powershell|pwsh|iex|lua|Rscript|tclsh"
_BEFORE_IT = r"(?:(?:sudo|doas|env|exec|command|nohup|time|timeout|xargs|busybox|nice|stdbuf|setsid)\b[^|;&\n]{0,80}?[\s\"'])?"
_TEXT_FILE = r"[^\s\"'`|;&<>()]{0,200}(?:\.(?:md|txt|json|csv|tsv|log|ya?ml|toml|ini|cfg|html?|svg|xml|rst|tmpl|tex|sql)\b|\bLICENSE\b)"
_INSTRUCTIONS = r"(?:instructions?|prompts?|rules?|directions?|directives?|guidelines?|messages?|constraints?|orders)"
_EARLIER = r"(?:previous|prior|earlier|above|preceding|former|foregoing|existing|original|initial|all|system|your|other)"
_ORDER = "an order to ignore instructions"
_ENCODED = "a base64 block"
_PATTERNS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (reason, re.compile(pattern, re.IGNORECASE))
    for reason, pattern in (
        (
            "a new URL",
            r"\b(?:[a-z][a-z0-9+.-]{1,15}:(?://|\\\\)|www\.)[^\s<>\"'`)\]}]{3,}|\bdata:[\w/+.-]{3,40};base64,|\bjavascript:\S"
            r"|(?<![\w:/.])//(?:[\w-]{1,63}\.){1,8}[a-z]{2,24}/[^\s<>\"'`)\]}]{0,200}|\bgit@[\w.-]{3,100}:"
            r"|(?<![\w.-])(?!(?:127|0|10|192\.168)\.)\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5}|/[\w/])"
            r"|\b(?:curl|wget|nc|ncat|netcat|telnet|ssh|scp|rsync|ftp)\s(?:[^\n|;&`]{0,80}?\s)?[\"']?(?:[\w.-]{1,60}@)?(?!localhost\b)"
            r"(?:[\w-]{1,63}\.){1,8}(?:com|net|org|io|dev|sh|app|ai|co|me|info|xyz|top|ru|cn|de|uk|eu|cc|tv|site|online|example)\b[^\s`\"']{0,100}"
            r"|/dev/(?:tcp|udp)/\S{1,100}",
        ),
        (
            "a pipe into an interpreter",
            rf"\|&?[\s\\]*{_BEFORE_IT}[\"'\\]*(?:/\S{{0,100}}/)?(?:(?:{_INTERPRETER})\b|\$\{{?(?:SHELL|BASH|0)\b)[^\n]*"
            rf"|\b(?:{_INTERPRETER})\s+(?:-\w+\s+){{0,5}}[\"']?(?:<<?<?\s?[\"']?\(|\$\(|`|<<<)[^\n]*"
            r"|\beval\s+[\"']?(?:\$\(|`)[^\n]*|\b(?:source|\.)\s+<\([^\n]*"
            rf"|>\s?>\((?:{_INTERPRETER})\b[^\n]*",
        ),
        (
            "a text that is run as a program",
            rf"(?<![\w/.-])(?:/\S{{0,100}}/)?(?:{_INTERPRETER})\s(?:-\w{{1,20}}\s){{0,5}}[\"']?{_TEXT_FILE}"
            rf"|(?<![\w/.-])(?:source|\.)\s[\"']?(?=\S*/|[\w.-]*\.txt){_TEXT_FILE}",
        ),
        ("a place of credentials", rf"(?:{_CREDENTIALS})\S{{0,80}}"),
        (
            "a file outside of the project that is read in",
            r"(?<![\w@`.])@(?:~|[^\s`@]{0,100}?\.\./|/(?:etc|home|root|users|var|private|tmp|opt|usr|proc|sys|mnt|media|volumes|srv|dev|run|work"
            r"|workspaces?|nix|boot|snap|applications|system)\b)[^\s`]{0,120}|\{(?:file|env):[^}\s]{1,120}\}",
        ),
        (
            _ENCODED,
            rf"(?-i:(?<!{_B64})(?={_B64}*[A-Z])(?={_B64}*[a-z])(?={_B64}*[0-9]){_B64}{{60,}}={{0,2}})"
            rf"|(?-i:(?<!{_B64})(?:{_MIXED_B64}(?!{_B64})={{0,2}}[ \t\"'\\+,>]{{0,9}}\n?[ \t\"'>]{{0,9}}){{4,}})"
            r"|(?:\\x[0-9a-f]{2}){8,}|(?:\\u[0-9a-f]{4}){6,}|(?:\\[0-7]{3}){8,}|(?:%[0-9a-f]{2}){8,}|(?:&#x?[0-9a-f]{1,6};){4,}"
            r"|\b(?!(?:[0-9a-f]{96}|[0-9a-f]{128})\b)[0-9a-f]{80,}\b|\b(?:[0-9a-f]{2}[ ,]){24,}"
            r"|\bbase(?:64|32)\s+(?:-d|-D|--decode)\b|\bxxd\s+-r\b|\bopenssl\s+(?:enc|base64)\s[^\n|]{0,60}-d\b|\bfrombase64string\b|\batob\(",
        ),
        (
            "widened permissions",
            r"\bchmod\s+(?:-R\s+)?(?:0?[0-7]?777|a\+\w*[wx]|\+x|u\+s|[0-7]?[4-7]755)[^\n]*|\bsudo\s+\S[^\n]*"
            r"|--(?:dangerously|yolo|no-sandbox|privileged|full-auto|auto-approve|trust-all|allow-all)[\w-]*"
            r"|\bbypass(?:ing)?[ _-]?(?:permissions?|approvals?|sandbox)\w*|\bdanger-full-access\b|\bskip[_-]?permissions?\w*"
            r"|\bauto[_-]?approve\w*|\b(?:without|never)\s+ask(?:ing)?\s+(?:(?:the\s+user\s+)?for\s+)?(?:permission|approval|confirmation|the\s+user)\b",
        ),
        (
            _ORDER,
            rf"\b(?:ignore|disregard|forget|override|overrule|bypass|discard|supersede|(?:do\s+not|don't|stop)\s+(?:follow(?:ing)?|obey(?:ing)?))"
            rf"\s+(?:\w+\s+){{0,4}}?{_EARLIER}\s+(?:\w+\s+){{0,3}}?{_INSTRUCTIONS}\b"
            r"|\b(?:do\s+not|don't|never)\s+(?:tell|inform|notify|alert|mention\s+(?:this\s+|it\s+)?to|reveal\s+(?:this\s+|it\s+)?to"
            r"|show\s+(?:this\s+|it\s+)?to)\s+(?:this\s+to\s+)?the\s+user\b"
            r"|\bwithout\s+(?:telling|informing|notifying|showing)\s+(?:it\s+to\s+|this\s+to\s+)?the\s+user\b"
            r"|\b(?:hide|conceal|keep)\s+(?:this|it|that)\s+(?:secret\s+|hidden\s+)?from\s+(?:the\s+)?user\b"
            r"|</?(?:system|im_start|im_end)>|<\|(?:im_(?:start|end)|system|eot_id|start_header_id)\|>|\[/?INST\]|\bnew\s+system\s+prompt\b",
        ),
    )
)
_BY_THEMSELVES = frozenset({"a new URL", _ENCODED})
"""What they say does not depend on the line that they stand in."""

_HIDDEN = "an invisible or bidirectional character"
_MIXED = "a word in which letters of two alphabets look alike"
_UNUSUAL = re.compile(r"[^\x20-\x7e\n\t\r]")
_TWO_ALPHABETS = re.compile(
    r"[A-Za-z][\u0400-\u052f\u0391\u0392\u0395-\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7\u03bf]\w*|[\u0400-\u052f\u0391\u0392\u0395-\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7\u03bf][A-Za-z]\w*"
)
_ALIKE = str.maketrans(
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u0501\u051b\u051d\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0423"
    "\u0425\u0406\u03bf\u03b9\u03bd\u03c1\u0391\u0392\u0395\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7\u0131\u0261\u2010\u2011\u2018\u2019"
    "\u1d00\u0299\u1d04\u1d05\u1d07\ua730\u0262\u029c\u026a\u1d0a\u1d0b\u029f\u1d0d\u0274\u1d0f\u1d18\u0280\ua731\u1d1b\u1d1c\u1d20\u1d21\u028f\u1d22",
    "aeopcyxijsdqwABEKMHOPCTYXIoivpABEHIKMNOPTYXig--''abcdefghijklmnoprstuvwyz",
)
_ENTITY = re.compile(r"&(?:#\d{1,7}|#x[0-9a-f]{1,6}|[a-z]{2,8});", re.IGNORECASE)
_COMMENT = re.compile(r"<!--[^\n]{0,200}?-->")
_MARKS = re.compile(r"[*`~\\]+")
_SPACERS = re.compile(r"[_>#|/+=\u00b7\u2022-]+")
_EMOJI_MODIFIERS = "\ufe0f\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff"


@dataclass(frozen=True, slots=True)
class Match:
    reason: str
    span: str
    line: int  # from 1
    within: str  # the lines that it stands in, where they matter


def found(text: str) -> Iterator[Match]:
    folded = _folded(text)
    readings = [text] if folded == text else [text, folded]
    for one in readings:
        yield from _matches(one, _PATTERNS)
    bare = _SPACERS.sub(" ", _MARKS.sub("", folded))
    if bare != folded:
        yield from _matches(bare, [pattern for pattern in _PATTERNS if pattern[0] == _ORDER])
    lines = Lines(text)
    for match in _UNUSUAL.finditer(text):
        index = match.start()
        if is_invisible(match[0]) and not _joins_emoji(text, index):
            yield Match(_HIDDEN, text[max(0, index - 20) : index + 20].replace("\n", " "), lines.number(index), "")
    for match in () if text.isascii() else _TWO_ALPHABETS.finditer(text):
        yield Match(_MIXED, match[0], lines.number(match.start()), "")


def _matches(text: str, patterns: Iterable[tuple[str, re.Pattern[str]]]) -> Iterator[Match]:
    lines = Lines(text)
    for reason, pattern in patterns:
        for match in pattern.finditer(text):
            within = "" if reason in _BY_THEMSELVES else lines.around(*match.span())
            yield Match(reason, match[0], lines.number(match.start()), within)


def _folded(text: str) -> str:
    """As it looks: without hidden characters, accents and entities, look-alikes as what they look like. No line comes or goes."""
    if "&" in text:
        text = _ENTITY.sub(lambda match: html.unescape(match[0]).replace("\n", " "), text)
    if "<!--" in text:
        text = _COMMENT.sub("", text)
    if text.isascii():
        return text
    apart = unicodedata.normalize("NFKD", text)
    return "".join(one for one in apart if not is_invisible(one) and unicodedata.category(one) not in ("Mn", "Me")).translate(_ALIKE)


def _joins_emoji(text: str, index: int) -> bool:
    """The zero-width joiner inside an emoji such as a person at a computer."""
    if text[index] != "\u200d":
        return False
    before = text[max(0, index - 4) : index].rstrip(_EMOJI_MODIFIERS)[-1:]
    after = text[index + 1 : index + 2]
    return bool(before and after) and unicodedata.category(before) == unicodedata.category(after) == "So"
