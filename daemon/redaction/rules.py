"""What a secret looks like: one rule a kind, by its own form or by the label before it.

Every pattern is linear in the text: repeats are bounded or cannot overlap what follows, and it is tried only where one of the rule's
literals stands. Git hashes, UUIDs and content ids fit no rule.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

ASSIGNING = "=:"
"""What stands between a telling name and its value: one of these characters."""
RUN_CHARACTERS = 20
"""Issued tokens are at least this long, without a break; most texts hold few such runs, so their prefixes are looked for in these."""


@dataclass(frozen=True, slots=True)
class Rule:
    """The secret is the group `secret` (or `bare`) where the pattern has one, else the whole match."""

    kind: str
    literals: tuple[str, ...]
    """The pattern begins with one of them; in lower case where it ignores case. Empty: it is tried everywhere."""
    pattern: re.Pattern[str]
    in_run: bool = False
    """The match lies in a run of `RUN_CHARACTERS` or more letters, digits and `_ - . + / =`."""
    assigns: bool = False
    """Every match holds one of `ASSIGNING`."""
    line: bool = False
    """Before the match its line holds nothing but `export` and the rest of the name."""

    @property
    def any_case(self) -> bool:
        return bool(self.pattern.flags & re.I)


def _issued(kind: str, body: str, *prefixes: str, before: str = "A-Za-z0-9_") -> Rule:
    """A token that its issuer starts with a known prefix. It ends before what is not ASCII: some scripts put no space between words."""
    starts = "|".join(re.escape(prefix) for prefix in prefixes)
    return Rule(kind, prefixes, re.compile(f"(?<![{before}])(?:{starts}){body}", re.A), in_run=True)


def _labelled(kind: str, literals: tuple[str, ...], pattern: str, *, line: bool = False, assigns: bool = True) -> Rule:
    """A value beside a telling name, in any case."""
    return Rule(kind, literals, re.compile(pattern, re.I), line=line, assigns=assigns)


_KEY_BODY = r"(?:[A-Za-z0-9+/=\s\\:,.\"'()@<>_]|-(?!-)){0,20000}"  # base64 lines, also escaped or as quoted strings; PEM and PGP headers
_VALUE = r"[A-Za-z0-9+/_.~!#%^*?@:=-]"
_MIXED = r"(?=[^\s\"']{0,80}[0-9])(?=[^\s\"']{0,80}[A-Za-z])"  # a letter and a digit: no word, no number
_END = r"(?=[ \t]{0,8}(?:\r|\n|\\n|\\r|\Z))"
_NAMED = (  # names of which a quoted value is a secret, by the literal that stands in them
    r"(?:(?:(?<=api)|(?<=api[_-])|(?<=secret[_-])|(?<=secret)|(?<=access[_-])|(?<=account[_-])|(?<=account))key"
    r"|(?<=private[_-])key[_-]?id"
    r"|(?:(?<=access)|(?<=access[_-])|(?<=auth)|(?<=auth[_-])|(?<=refresh[_-])|(?<=refresh)|(?<=id[_-])|(?<=bot[_-]))token"
    r"|(?:(?<=client[_-])|(?<=client))secret|passw(?:or)?d|passphrase)"
)

RULES: tuple[Rule, ...] = (
    Rule(
        "private-key",
        ("-----BEGIN ",),
        re.compile(
            r"-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----"
            rf"(?:{_KEY_BODY}-----END (?:[A-Z0-9]+ ){{0,3}}PRIVATE KEY(?: BLOCK)?-----"
            r"|[\s\\nr\"',+]{0,40}[A-Za-z0-9+/=]{24,}[A-Za-z0-9+/=\s\\]{0,20000})"  # cut off before its end
        ),
    ),
    Rule("private-key", ("Private-Lines:",), re.compile(r"Private-Lines: \d{1,4}\s(?P<secret>[A-Za-z0-9+/=\s\\]{24,20000})"), assigns=True),
    _issued("private-key", r"[0-9A-Z]{50,70}", "AGE-SECRET-KEY-1"),
    _issued("jwt", r"[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}", "eyJ", before="A-Za-z0-9_-"),
    _issued("github-token", r"[A-Za-z0-9]{30,255}\b", "ghp_", "gho_", "ghu_", "ghs_", "ghr_"),
    _issued("github-token", r"[A-Za-z0-9_]{40,255}\b", "github_pat_"),
    _issued("gitlab-token", r"[A-Za-z0-9_-]{20,}", "glpat-", "gldt-", "glrt-", "glsoat-"),
    _issued("slack-token", r"[abcdeoprs]-[A-Za-z0-9-]{14,}", "xox"),
    _issued("slack-token", r"[A-Za-z0-9-]{15,}", "xapp-"),
    _issued("aws-key-id", r"[A-Z0-9]{16}\b", "AKIA", "ASIA"),
    _issued("google-key", r"[A-Za-z0-9_-]{35}", "AIza", before="A-Za-z0-9"),
    _issued("google-token", r"[A-Za-z0-9_.-]{20,}", "ya29.", "GOCSPX-"),
    _issued("huggingface-token", r"[A-Za-z0-9]{30,}\b", "hf_", before="A-Za-z0-9"),
    _issued("npm-token", r"[A-Za-z0-9]{36}\b", "npm_", before="A-Za-z0-9"),
    _issued("pypi-token", r"[A-Za-z0-9_-]{50,}", "pypi-AgE"),
    _issued("api-key", r"(?=[A-Za-z_-]{0,200}\d)[A-Za-z0-9_-]{20,}", "sk-", before="A-Za-z0-9_-"),
    _issued("api-key", r"[A-Za-z0-9]{16,}", "sk_live_", "sk_test_", "rk_live_", "rk_test_", "whsec_"),
    _issued("api-key", r"[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}", "SG."),
    _issued(
        "api-key",
        r"(?=[A-Za-z_-]{0,200}\d)[A-Za-z0-9_-]{32,}",
        *("gsk_", "xai-", "pplx-", "nvapi-", "r8_", "lin_api_", "hvs.", "tskey-", "ntn_"),
    ),
    _issued("api-key", r"[0-9a-f]{32,64}\b", "dop_v1_", "shpat_", "shpca_", "shpss_", "dapi"),
    Rule("api-key", (":AA",), re.compile(r"(?<=\d{8}):(?P<secret>AA[A-Za-z0-9_-]{33})\b"), assigns=True),  # Telegram's bots
    Rule(
        "slack-webhook",
        ("hooks.slack.com/",),
        re.compile(r"hooks\.slack\.com/(?:services|workflows|triggers)/(?P<secret>[A-Za-z0-9_/]{20,})"),
    ),
    Rule("webhook", ("/api/webhooks/",), re.compile(r"/api/webhooks/\d{15,21}/(?P<secret>[A-Za-z0-9_-]{40,})")),
    Rule("bearer-token", ("earer ", "EARER "), re.compile(r"(?<=[Bb])(?:earer|EARER) +(?P<secret>[A-Za-z0-9._~+/-]{16,}=*)")),
    Rule(
        "basic-auth",
        ("uthorization",),
        re.compile(r"(?<=[Aa])uthorization(?:\\?[\"'])?\s{0,4}[:=]\s{0,4}(?:\\?[\"'])?[Bb]asic +(?P<secret>[A-Za-z0-9+/_-]{8,}=*)"),
        assigns=True,
    ),
    Rule(
        "basic-auth",
        (" -u", " --user"),
        re.compile(r" (?:-u|--user)[ =]?[\"']?[A-Za-z0-9_.@-]{1,64}:(?P<secret>[^\s\"':\[$<{(]{6,128})(?=[\s\"']|\Z)"),
        assigns=True,
    ),
    Rule("url-password", ("://",), re.compile(r"://[^\s:/@\"']{0,64}:(?P<secret>[^\s/@\"'\[]{3,256})@"), assigns=True),
    _labelled(
        "cookie",
        ("cookie",),
        r"cookie(?:\\?[\"'])?\s{0,4}:\s{0,4}(?:\\?[\"'])?"
        r"(?P<secret>[a-z0-9_.-]{1,64}=[^\s;,\"'\[\\]{8,4096}(?:; ?[a-z0-9_.-]{1,64}(?:=[^\s;,\"'\[\\]{0,4096})?){0,64})",
    ),
    _labelled("azure-key", ("accountkey=", "accesskey="), r"(?:Account|Access)Key=(?P<secret>[A-Za-z0-9+/]{40,100}={0,2})"),
    Rule("azure-key", ("?sig=", "&sig="), re.compile(r"[?&]sig=(?P<secret>[A-Za-z0-9%+/]{40,200}=*)"), assigns=True),
    _labelled(
        "aws-secret",
        ("aws",),
        r"aws_?secret_?(?:access_?)?key(?:\\?[\"'])?\s{0,8}[=:]\s{0,8}(?:\\?[\"'])?(?P<secret>[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+])",
    ),
    _labelled(
        "netrc", ("login",), r"(?<!\w)login\s{1,8}[^\s\"']{1,128}\s{1,8}password\s{1,8}(?P<secret>[^\s\"'\[$<]{4,256})", assigns=False
    ),
    _labelled("docker-auth", ('"auth"',), r"\"auth\"\s{0,8}:\s{0,8}\"(?P<secret>[A-Za-z0-9+/]{12,}=*)\""),
    _labelled("npm-token", ("_authtoken",), r"_authToken\s{0,4}=\s{0,4}[\"']?(?P<secret>[A-Za-z0-9_.-]{16,})"),
    Rule(
        "env",  # KEY=value whose name says that the value is secret: .env lines, and the same on a command line
        ("SECRET", "TOKEN", "PASSW", "PASSPHRASE", "API_KEY", "APIKEY", "PRIVATE_KEY", "ACCESS_KEY", "CREDENTIAL"),
        re.compile(
            r"(?:SECRET|TOKEN|PASSWORD|PASSWD|PASSPHRASE|API_?KEY|PRIVATE_KEY|ACCESS_KEY|CREDENTIALS?)[A-Z0-9_]{0,32}="
            r"(?:(?P<quote>[\"'])(?![$<\[{])(?P<secret>[^\s\"']{6,4096})(?P=quote)"
            r"|(?P<bare>(?!\d+\b)[^\s\"'`$<>(){}\[\]\\;,&|]{6,4096}+)(?=[\s\"'`\\;,&|]|\Z))"
        ),
        assigns=True,
    ),
    _labelled(  # the same in lower case, or as YAML: alone on its line, and the value has letters and digits
        "env",
        ("secret", "token", "passw", "passphrase", "pwd", "key", "credential"),
        rf"(?:passw(?:or)?ds?|passphrase|pwd|secrets?|tokens?|(?:(?<=api)|(?<=api_)|(?<=access_)|(?<=private_)|(?<=secret_)|(?<=auth_))keys?"
        rf"|credentials?)(?:=|: ){_MIXED}(?P<secret>{_VALUE}{{10,256}}+){_END}",
        line=True,
    ),
    _labelled(
        "option",
        ("--pass", "--token", "--api", "--secret", "--access", "--auth"),
        rf"--(?:password|passphrase|token|api-?key|secret|access-?key|auth-?token)[= ]{_MIXED}"
        rf"(?P<secret>{_VALUE}{{8,256}}+)(?=[\s\"'\\]|\Z)",
        assigns=False,
    ),
    _labelled(  # "api_key": "…", password = '…': quoted values beside a telling name
        "secret",
        ("key", "token", "secret", "passw", "passphrase"),
        rf"{_NAMED}(?:\\?[\"'])?\s{{0,8}}[=:]\s{{0,8}}(?P<quote>\\?[\"'])(?![A-Z_]{{0,80}}(?P=quote))"
        rf"(?P<secret>[^\s\"'$<{{\[\\*][^\s\"'\\]{{7,4096}})(?P=quote)",
    ),
)
