"""Secrets are gone before anything is written; what only looks random stays."""

from __future__ import annotations

import hashlib
import json
import random
import time
import uuid
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import starlette
from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.config_load import load
from daemon.errors import ConfigError
from daemon.experience.reader import Reader
from daemon.experience.sessions.keys import message_key
from daemon.experience.store import Store
from daemon.paths import Home
from daemon.records import JSONObject, Message, TokenTrace
from daemon.redaction.redact import BUILT_IN, RedactionRule, redact, redact_tags, redact_text
from daemon.redaction.redactor import Redactor
from daemon.redaction.settings import redaction_of
from daemon.redaction.user_patterns import rules_of
from tests.experience.make import as_it_came, inference, report, user

# Made up here, put together from pieces so that no scanner takes this file for a leak.
_BODY = "aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY"
SECRETS = {
    "api-key": f"use sk-{_BODY}{_BODY} please",
    "github-token": "gh" + f"p_{_BODY}1234",
    "aws-key-id": "AK" + "IA" + "ABCDEFGHIJKLMNOP",
    "aws-secret": "aws_secret_access_key = " + (_BODY + _BODY)[:40],
    "jwt": "ey" + "JhbGciOiJIUzI1NiJ9." + "ey" + "JzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P",
    "bearer-token": f"-H 'Authorization: Bearer {_BODY}'",
    "private-key": "-----BEGIN RSA " + "PRIVATE KEY-----\nMIIEow\nIBAAKC\n-----END RSA " + "PRIVATE KEY-----",
    "env": f"PORT=80\nDB_PASSWORD={_BODY}\nDEBUG=1",
    "url-password": f"postgres://app:{_BODY}@localhost/db",
    "secret": f'{{"client_secret": "{_BODY}"}}',
    "huggingface-token": f"hf_{_BODY}ab",
    "slack-token": "xo" + f"xb-{_BODY}",
    "google-key": "AI" + f"zaSy{_BODY}q",
    "basic-auth": f"-H 'Authorization: Basic {_BODY}=='",
    "cookie": f"Cookie: theme=darkmode; session={_BODY}; path",
    "azure-key": f"DefaultEndpointsProtocol=https;AccountKey={_BODY}{_BODY}==;Suffix=x",
    "netrc": f"machine api.example.org login me password {_BODY}",
    "docker-auth": f'{{"auths": {{"r.example.org": {{"auth": "{_BODY}"}}}}}}',
    "npm-token": f"//registry.example.org/:_authToken={_BODY}",
    "pypi-token": "py" + f"pi-AgEIcHlwaS5vcmc{_BODY}{_BODY}",
    "slack-webhook": f"https://hooks.slack.com/services/T0001/B0001/{_BODY}",
    "google-token": "GO" + f"CSPX-{_BODY}",
    "gitlab-token": f"glpat-{_BODY}",
    "option": f"mysql --password={_BODY} db",
}
MORE_FORMS = (
    f"sk-ant-api03-{_BODY}-{_BODY}",
    "sk_" + f"live_{_BODY}",
    f"whsec_{_BODY}",
    f"xapp-1-A0-{_BODY}",
    f"db_password={_BODY}",
    f"export api_key={_BODY}",
    f"services:\n  db:\n    password: {_BODY}\n    port: 1",
    f'{{"content": "host=x\\ntoken={_BODY}\\nport=1"}}',
    f"curl -u me:{_BODY} https://example.org",
    f"redis://:{_BODY}@localhost:6379/0",
    f"https://a.blob.example.net/c?sv=1&sig={_BODY}{_BODY}%3D",
    f'{{"private_key_id": "{_BODY}"}}',
    f"clientSecret: '{_BODY}'",
    f'{{\\"password\\": \\"{_BODY}\\"}}',
    f"Set-Cookie: sid={_BODY}; HttpOnly",
    f"8123456789:AAE{_BODY}",
    "-----BEGIN OPENSSH " + f"PRIVATE KEY-----\n{_BODY}{_BODY}\n{_BODY}",
    "-----BEGIN PGP " + f"PRIVATE KEY BLOCK-----\nVersion: GnuPG v2\n\n{_BODY}\n=x\n-----END PGP " + "PRIVATE KEY BLOCK-----",
    '{"private_key": "-----BEGIN ' + f"PRIVATE KEY-----\\n{_BODY}\\n-----END " + 'PRIVATE KEY-----\\n"}',
)
HARMLESS = (
    hashlib.sha1(b"x").hexdigest(),
    f"commit {hashlib.sha256(b'y').hexdigest()}",
    str(uuid.UUID(int=2**127 + 12345)),
    "index 1a2b3c4..5d6e7f8 100644",
    "token = get_token()\npassword: str\nAPI_KEY=$API_KEY\nTOKEN=${TOKEN}\nexport SECRET_KEY=<your key>",
    "the bearer of this letter; a key: value pair; sk-learn; task-force",
    "API_KEY=os.environ['KEY']\nTOKEN=load(path)\nself.TOKEN=None",
    'class="sk-loading-spinner-indicator-large" desk-2024-01-01-abcdefghijklmnop',
    "max_tokens=4096\nMAX_TOKENS=409600000",
    "https://example.org:8080/a@b and git@github.com:a/b.git",
    'tokenizer = "a long quoted sentence without anything"',
    "rec_0ne6abcd0123456789abcdef",
    'if "-----BEGIN PRIVATE KEY-----" in text: raise ValueError("no keys here, please look at the other line")',
    "def login(name: str, password: str, token: bytes32 = None) -> None:",
    "machine learning; login page; the password is asked twice",
    'ENV_AUTH_TOKEN = "ANTHROPIC_AUTH_TOKEN"\npad_token = "<|endoftext|>"',
    "  api_key=api_key_of(settings2),\n  token=tokens[0],\n  key: value2 of it",
    "Cookie: a word for a small file; cookies=None",
    "tool --token TOKEN --password PASSWORD",
)


@pytest.mark.parametrize("kind", SECRETS)
def test_a_secret_is_replaced_by_its_kind(kind: str) -> None:
    text, count = redact_text(f"before {SECRETS[kind]} after" if "\n" not in SECRETS[kind] else SECRETS[kind])
    assert f"[redacted:{kind}]" in text
    assert count == 1
    assert _BODY[:20] not in text and "MIIEow" not in text


@pytest.mark.parametrize("text", MORE_FORMS)
def test_the_secret_is_gone_from_every_form(text: str) -> None:
    redacted, count = redact_text(text)
    assert count == 1 and _BODY[:16] not in redacted and _BODY[-16:] not in redacted, redacted
    assert redact_text(f"before\n{text}\nafter")[1] == 1


@pytest.mark.parametrize(
    "text",
    [
        f"data:text/plain;base64,AAAA and {SECRETS['github-token']}",
        f"data:image/png;base64,AAAA\n{SECRETS['github-token']}",
        f"令牌是{SECRETS['github-token']}，请保密",
        f"令牌是{SECRETS['aws-key-id']}请保密",
    ],
)
def test_neither_what_stands_before_it_nor_behind_it_hides_a_secret(text: str) -> None:
    assert redact_text(text)[1] == 1


def test_an_image_is_left_alone() -> None:
    image = "data:image/png;base64," + SECRETS["aws-key-id"] * 5
    assert redact_text(image) == (image, 0)


def test_a_secret_that_is_a_name_is_replaced_too() -> None:
    token = SECRETS["github-token"]
    value: JSONObject = {"a": [{token: {"b": 1}, "c": 2}]}
    expected: JSONObject = {"a": [{"[redacted:github-token]": {"b": 1}, "c": 2}]}
    assert Redactor().json(value) == (expected, 1)
    assert redact_tags({token: "1"}, Redactor()) == ({"[redacted:github-token]": "1"}, 1)
    assert Redactor().fields({token: 1, **value}) == ({"[redacted:github-token]": 1, **expected}, 2)


@pytest.mark.parametrize("text", HARMLESS)
def test_what_only_looks_random_stays(text: str) -> None:
    assert redact_text(text) == (text, 0)


@settings(max_examples=60)
@given(st.lists(st.one_of(st.sampled_from([*SECRETS.values(), *MORE_FORMS, *HARMLESS]), st.text(max_size=20)), max_size=6).map("\n".join))
def test_redacting_twice_changes_nothing_more(text: str) -> None:
    once, _ = redact_text(text)
    assert redact_text(once) == (once, 0)


def test_a_record_loses_its_secret_on_both_sides_and_its_token_ids() -> None:
    record = inference(
        [user("hello"), {"role": "user", "content": [{"type": "text", "text": SECRETS["github-token"]}]}],
        {
            "role": "assistant",
            "content": "x",
            "tool_calls": [{"id": "c", "function": {"name": "sh", "arguments": SECRETS["bearer-token"]}}],
        },
        tokens=TokenTrace((1,), (2,), (-0.5,)),
        request={"tools": [{"description": SECRETS["aws-key-id"]}]},
        effective=[user(SECRETS["jwt"])],
    )
    clean = redact(replace(record, note=f"It names {SECRETS['aws-key-id']}.", tags={"client": SECRETS["jwt"]}))
    assert (
        clean.redactions == 6
        and clean.tags == {"client": "[redacted:jwt]"}
        and clean.tokens is None
        and "[redacted:aws-key-id]" in clean.note
    )
    assert clean.messages[0] is not None and "[redacted:github-token]" in str(clean.messages[1])
    assert redact(clean) == clean
    plain = inference(tokens=TokenTrace((1,), (2,), (-0.5,)))
    assert redact(plain) is plain


def test_a_scenario_may_keep_its_own_rule(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "experience.db", RedactionRule(False, {"private": True}))
    text = f"key sk-{_BODY}{_BODY}"
    for scenario in ("default", "private"):
        record = replace(inference([user(text)], text), scenario=scenario)
        store.append(record)
        store.append_report(replace(report(record, feedback=text), scenario=scenario))
        store.append_imported([as_it_came("imp", "note", {"text": text}, scenario=scenario)])
    store.close()
    reader = Reader(store.path)
    for scenario, hidden in (("default", False), ("private", True)):
        items = reader.items(scenario)
        shown = f"{items} {reader.imported(scenario)}"
        assert len(items) == 2 and (_BODY not in shown) == hidden, scenario
    reader.close()


def test_nothing_secret_reaches_the_disk(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "experience.db")
    text = f"key sk-{_BODY}{_BODY}"
    record = inference([user(text)], text)
    store.append(record)
    store.append_report(report(record, feedback={"note": text}))
    store.append_imported([as_it_came("imp", "log", {"deep": [{"text": text}]})]).result(10)
    again = store.resolve_session("default", None, [*record.messages, record.reply, user("next")])
    assert again.session == record.session  # grouped though the client's copy still holds the secret
    store.close()
    reader = Reader(store.path)
    assert reader.inference(record.id).redactions == 2
    assert reader.report(reader.reports_for(record.id)[0].id).feedback == {"note": "key [redacted:api-key]"}
    reader.close()
    for file in tmp_path.iterdir():
        assert _BODY.encode() not in file.read_bytes()


def test_a_session_with_a_text_of_an_own_pattern_is_found_after_a_restart(tmp_path: Path) -> None:
    rule = RedactionRule(redactor=Redactor(rules_of({"staff-id": "EMP-[0-9]{6}"})))
    record = inference([user("I am EMP-123456")], "Welcome, EMP-123456.", session="ses_1")
    store = Store.open(tmp_path / "experience.db", rule)
    store.append(record).result(10)
    store.close()
    store = Store.open(tmp_path / "experience.db", rule)
    assert store.resolve_session("default", None, [*record.messages, record.reply, user("next")]).session == "ses_1"
    store.close()
    assert b"EMP-" not in (tmp_path / "experience.db").read_bytes()


def test_redaction_can_be_turned_off(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "experience.db", RedactionRule(False))
    record = inference([user(SECRETS["github-token"])])
    sequence = store.append(record).result(10)
    reader = Reader(store.path)
    assert reader.inference(record.id) == replace(record, sequence=sequence)
    reader.close()
    store.close()


def test_secrets_inside_escaped_text_are_found() -> None:
    arguments = f'{{"content":"PORT=80\\nDB_PASSWORD={_BODY}\\nX=1"}}'
    assert redact_text(arguments) == (arguments.replace(_BODY, "[redacted:env]"), 1)
    assert redact_text(f"docker run -e API_KEY={_BODY} img")[1] == 1


def test_unchanged_values_are_not_copied() -> None:
    value: Message = {"role": "user", "content": [{"type": "text", "text": "plain words only"}]}
    assert BUILT_IN.json(value)[0] is value
    assert message_key(value) == message_key({"role": "user", "content": "plain words only"})


_WORD, _LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-", "abcdefghijklmnopqrstuvwxyz"
ISSUED = {  # as their issuers make them: prefix, how many random characters, of which
    "sk-proj-": (48, _WORD),
    "sk-ant-api03-": (93, _WORD),
    "gh" + "p_": (36, _WORD[:-2]),
    "github_pat_": (82, _WORD[:-2]),
    "glpat-": (20, _WORD[:-2]),
    "xo" + "xb-": (50, _WORD[:-2]),
    "AK" + "IA": (16, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"),
    "AI" + "za": (35, _WORD),
    "hf_": (34, _WORD[:-12]),
    "npm_": (36, _WORD[:-2]),
    "sk_" + "live_": (24, _WORD[:-2]),
    "gsk_": (52, _WORD[:-2]),
    "DB_PASSWORD=": (16, _WORD),
    "Authorization: Bearer ": (40, _WORD),
    "postgres://app:": (20, _WORD),
    'api_key = "': (32, _WORD),
}
AROUND = ("{}", "see {} here", "'{}',", '{{"a": "{}"}}', "x\n{}\ny", "`{}`", "({})", "key:{};")


def test_nearly_every_generated_secret_is_found() -> None:
    """2,000 random ones in ordinary surroundings."""
    chance = random.Random(7)
    missed: Counter[str] = Counter()
    for number in range(2000):
        prefix, (length, alphabet) = chance.choice(list(ISSUED.items()))
        body = "".join(chance.choices(alphabet, k=length))
        end = "@localhost/db" if prefix.startswith("postgres") else '"' if prefix.endswith('"') else ""
        form = "{}" if end or prefix.endswith(("=", " ")) else AROUND[number % len(AROUND)]
        text, _ = redact_text(form.format(f"{prefix}{body}{end}"))
        if any(body[at : at + 12] in text for at in range(0, length - 11, 4)):
            missed[prefix] += 1
    assert missed.total() <= 2, missed


def test_ordinary_code_is_left_alone() -> None:
    """A part of the standard library and of what is installed: hardly anything in it looks like a secret."""
    files = sorted(Path(json.__file__).parent.parent.glob("*.py"))[:120] + sorted(Path(starlette.__file__).parent.rglob("*.py"))
    texts = [file.read_text(errors="replace") for file in files]
    assert sum(map(len, texts)) > 2_000_000
    taken = [(file.name, secret) for file, text in zip(files, texts, strict=True) if (secret := redact_text(text)[1])]
    assert sum(count for _, count in taken) <= 4, taken


@pytest.mark.parametrize(
    "shape", ["TOKEN=", "password='", "-----BEGIN PRIVATE KEY-----", "cookie: a=bbbbbbbbb;", "eyJa.", "://a:b", "token=a1\n"]
)
def test_no_text_makes_redaction_slow(shape: str) -> None:
    """Linear in the text: four times the text takes some four times as long, and never the square of that."""
    text = shape * (40_000 // len(shape)) + "["
    assert _seconds(text * 4) < 12 * _seconds(text) + 0.05


def _seconds(text: str) -> float:
    fresh = Redactor()
    began = time.process_time()
    fresh.text(text)
    return time.process_time() - began


def test_own_patterns_are_added_and_allowed_texts_are_left() -> None:
    redactor = Redactor(rules_of({"staff-id": r"EMP-\d{6,8}"}), ["sk-example-*", "AK" + "IAABCDEFGHIJKLMNOP"])
    text, count = redactor.text(f"EMP-1234567 said sk-example-{_BODY} and {SECRETS['aws-key-id']}, not {SECRETS['github-token']}")
    assert count == 2 and text.startswith("[redacted:staff-id] said sk-example-") and "[redacted:github-token]" in text


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        (r"(a+)+b", "no bound"),
        (r"x.*y", "no bound"),
        (r"(a{1,9}){1,9}b", "inside a repeat"),
        (r"a{0,60}a{0,60}a{0,60}b", "too many ways"),
        (r"(a)\1", "refers back"),
        (r"a(?=b)", "looks ahead"),
        (r"a{0,3}", "empty text"),
        (r"[a-z:\[]{4}", "leaves behind"),
        (r"(", "no regular expression"),
        ("a" * 301, "longer than"),
    ],
)
def test_a_pattern_that_could_be_slow_is_refused_with_why(pattern: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        rules_of({"mine": pattern})


def test_settings_choose_what_is_redacted_where(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(
        "storage: {redact: {patterns: {staff-id: 'EMP-[0-9]{6}'}}}\n"
        "scenarios: {open: {storage: {redact: false}}, plain: {storage: {redact: true}}}\n"
    )
    rule = redaction_of(load(Home(tmp_path), None, {}, {}).config)
    said = {
        name: rule.redacted(replace(inference([user("I am EMP-123456")]), scenario=name)).redactions
        for name in ("default", "open", "plain")
    }
    assert said == {"default": 1, "open": 0, "plain": 0}
