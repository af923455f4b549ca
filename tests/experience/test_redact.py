"""Secrets are gone before anything is written; what only looks random stays."""

from __future__ import annotations

import hashlib
import uuid
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.experience.keys import message_key
from daemon.experience.reader import Reader
from daemon.experience.store import Store
from daemon.records import Message, TokenTrace
from daemon.redact import RedactionRule, redact, redact_json, redact_text
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
}
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
)


@pytest.mark.parametrize("kind", SECRETS)
def test_a_secret_is_replaced_by_its_kind(kind: str) -> None:
    text, count = redact_text(f"before {SECRETS[kind]} after" if "\n" not in SECRETS[kind] else SECRETS[kind])
    assert f"[redacted:{kind}]" in text
    assert count == 1
    assert _BODY[:20] not in text and "MIIEow" not in text


@pytest.mark.parametrize("text", HARMLESS)
def test_what_only_looks_random_stays(text: str) -> None:
    assert redact_text(text) == (text, 0)


@given(st.lists(st.one_of(st.sampled_from([*SECRETS.values(), *HARMLESS]), st.text(max_size=20)), max_size=6).map("\n".join))
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
    clean = redact(replace(record, note=f"It names {SECRETS['aws-key-id']}."))
    assert clean.redactions == 5 and clean.tokens is None and "[redacted:aws-key-id]" in clean.note
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
    assert redact_json(value)[0] is value
    assert message_key(value) == message_key({"role": "user", "content": "plain words only"})
