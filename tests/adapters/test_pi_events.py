"""The exit code of a headless pi says nothing: its events decide whether the task was done."""

from __future__ import annotations

import json

from adapters.pi.events import read_events


def assistant(text: str, **more: object) -> str:
    message = {
        "role": "assistant",
        "content": [{"type": "text", "text": text}],
        "usage": {"input": 10, "output": 2, "cacheRead": 3},
        **more,
    }
    return json.dumps({"type": "message_end", "message": message})


SETTLED = json.dumps({"type": "agent_settled", "aborted": False})


def test_the_last_text_is_the_reply_and_every_call_has_its_id() -> None:
    outcome = read_events(
        [
            "Warning: No project session found with id 'abc'; creating a new session with that id.",
            json.dumps({"type": "message_end", "message": {"role": "user", "content": [{"type": "text", "text": "hi"}]}}),
            assistant("Let me look.", stopReason="toolUse", responseId="chatcmpl-1"),
            assistant("Done.", stopReason="stop", responseId="chatcmpl-2"),
            SETTLED,
        ]
    )
    assert outcome.reply == "Done." and outcome.error == ""
    assert outcome.response_ids == ("chatcmpl-1", "chatcmpl-2")
    assert (outcome.input_tokens, outcome.output_tokens) == (26, 4)


def test_a_server_that_is_not_there_is_an_error_though_pi_exits_with_0() -> None:
    outcome = read_events([assistant("", stopReason="error", errorMessage="Connection error."), SETTLED])
    assert outcome.error == "Connection error."


def test_a_call_that_failed_and_was_tried_again_is_no_error() -> None:
    outcome = read_events([assistant("", stopReason="error", errorMessage="busy"), assistant("Hello.", stopReason="stop"), SETTLED])
    assert outcome.error == "" and outcome.reply == "Hello."


def test_a_pi_that_was_killed_did_not_finish() -> None:
    assert "stopped before" in read_events([assistant("Half", stopReason="toolUse")]).error
    assert "stopped before" in read_events([]).error
