"""JSON that is legal but wicked: nested without end, numbers that no double holds, characters that are none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from daemon import json_text
from tests.daemon.running import Running, running

CHAT = "/v1/chat/completions"


def deep(levels: int) -> str:
    return "[" * levels + "]" * levels


async def post(daemon: Running, path: str, body: str) -> tuple[int, str]:
    response = await daemon.client.post(path, content=body.encode(), headers={"content-type": "application/json"})
    return response.status_code, response.text


@pytest.mark.parametrize("text", [deep(101), deep(900), deep(100_000), "1e999", "-1e999", "NaN", "Infinity", '{"a": [1e400]}'])
def test_what_later_code_could_not_walk_or_write_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        json_text.parse(text)


def test_a_number_of_too_many_digits_is_told_without_words_of_python() -> None:
    with pytest.raises(ValueError, match=r"^a number has more than \d+ digits$"):
        json_text.parse('{"seed": ' + "9" * 100_000 + "}")


def test_what_people_send_is_read() -> None:
    assert json_text.parse(deep(100)) is not None
    assert json_text.parse('{"a": [1, -2.5e-3, "x", null, true]}') == {"a": [1, -0.0025, "x", None, True]}


async def test_a_body_that_is_nested_without_end_is_a_400_wherever_it_is(tmp_path: Path) -> None:
    """At some hundred levels it was read, answered, and then could not be stored."""
    async with running(tmp_path) as daemon:
        for levels in (150, 600, 900, 100_000):
            for place in ("content", "extra"):
                body = json.dumps({"model": "scripted", "messages": [{"role": "user", "content": "x"}], "extra": "DEEP"})
                body = body.replace('"x"' if place == "content" else '"DEEP"', deep(levels))
                status, text = await post(daemon, CHAT, body)
                assert status == 400 and "nested" in text, levels
        assert daemon.services.reader.counts("default").inferences == 0


async def test_a_body_of_millions_of_values_is_a_400_before_it_is_read(tmp_path: Path) -> None:
    """Reading it would stop every stream for as long as it takes."""
    async with running(tmp_path) as daemon:
        for filling in ("[]," * 600_000, "1," * 5_000_000):
            body = f'{{"model":"scripted","messages":[{{"role":"user","content":"x"}}],"extra":[{filling}1]}}'
            status, text = await post(daemon, CHAT, body)
            assert status == 400 and "more arrays" in text
        body = json.dumps({"model": "scripted", "messages": [{"role": "user", "content": "f(a[0], {b});\n" * 4_000}]})
        assert (await post(daemon, CHAT, body))[0] == 200, "as much code as fits is none"


async def test_json_inside_a_text_may_be_anything(tmp_path: Path) -> None:
    """Arguments that a model wrote, and Claude Code's user id, are JSON in a text: whatever they hold, the request is answered."""
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "[" * 100_000}}
    messages = [{"role": "user", "content": "q"}, {"role": "assistant", "content": None, "tool_calls": [call]}]
    async with running(tmp_path) as daemon:
        for metadata in ({}, {"user_id": "[" * 100_000}):
            body = json.dumps({"model": "scripted", "messages": messages, "metadata": metadata})
            status, text = await post(daemon, CHAT, body)
            assert status == 200, text


async def test_one_report_with_an_infinite_number_does_not_hide_all_records(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        status, _ = await post(daemon, "/reef/report", '{"score":1,"metadata":{"a":1e999}}')
        assert status == 400
        assert (await daemon.client.get("/reef/scenarios/default/records")).status_code == 200


async def test_half_a_character_comes_back_as_valid_json(tmp_path: Path) -> None:
    """JavaScript cuts texts between the halves of an emoji and sends what is left as an escape."""
    async with running(tmp_path) as daemon:
        status, text = await post(daemon, CHAT, r'{"model":"scripted","messages":[{"role":"user","content":"a\ud800b"}]}')
        assert status == 200 and json.loads(text)["choices"][0]["message"]["content"] == "echo: a\ud800b"
        _, text = await post(daemon, CHAT, r'{"model":"scripted","stream":true,"messages":[{"role":"user","content":"a\ud800b"}]}')
        deltas = [json.loads(line[6:])["choices"] for line in text.splitlines() if line.startswith("data: {")]
        assert "".join(choice[0]["delta"].get("content", "") for choice in deltas if choice) == "echo: a\ud800b"
        assert (await daemon.client.get("/reef/scenarios/default/records")).json()["records"]
        status, text = await post(daemon, "/reef/report", r'{"score":1,"references":["\ud800"]}')
        assert status == 400 and "no record" in text
