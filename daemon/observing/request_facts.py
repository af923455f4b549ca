"""What is known of the HTTP request that this code works for: its id goes into every log line, the rest into its line of the access log.

A context variable carries it: tasks and threads that a request starts inherit it.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass

from daemon.errors import ReefError
from daemon.records import Inference


@dataclass(slots=True)
class RequestFacts:
    """Filled in while the request is answered. Names, numbers and sentences of ours: never what was asked or said, never a token."""

    id: str
    status: int = 0  # of the answer, once it has begun
    scenario: str = ""
    session: str = ""
    release: str = ""
    receipt: str = ""
    outcome: str = ""  # of the record: ok, aborted, error
    records: int = 0  # one a choice
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    cache_miss: str = ""
    first_token_ms: float = 0.0
    error: str = ""  # the code
    param: str = ""
    hint: str = ""


_facts: ContextVar[RequestFacts | None] = ContextVar("reef_request", default=None)
begin = _facts.set
current = _facts.get


def request_id() -> str:
    """Of the request that this code works for; empty outside of one."""
    facts = _facts.get()
    return facts.id if facts is not None else ""


def note_record(inference: Inference) -> None:
    """A record of the request is on disk. Of several choices the first one names the receipt; their tokens add up."""
    facts = _facts.get()
    if facts is None:
        return
    facts.records += 1
    if facts.records == 1:
        facts.scenario, facts.session, facts.release = inference.scenario, inference.session, inference.release_id
        facts.receipt, facts.outcome = inference.id, inference.status.value
        facts.first_token_ms = inference.first_token_ms
        facts.cache_miss = inference.cache_miss
        facts.prompt_tokens, facts.cached_tokens = inference.usage.prompt_tokens, inference.usage.cached_tokens
    facts.completion_tokens += inference.usage.completion_tokens


def note_error(error: ReefError) -> None:
    """The request is refused or has failed. The sentence may quote what was sent, so it is not kept; code and hint are ours."""
    facts = _facts.get()
    if facts is not None:
        facts.error, facts.param, facts.hint = error.code, error.param or "", error.hint
