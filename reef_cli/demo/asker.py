"""The user's side of the demo: prompts through the OpenAI SDK, as any program would send them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from openai import DefaultHttpxClient, OpenAI, Stream
from openai.types.chat import ChatCompletionChunk

from reef_cli.demo.narrator import Narrator
from reef_cli.demo.server import DemoServer
from reef_cli.demo.tasks import REPLY_TOKENS


@dataclass(frozen=True, slots=True)
class Reply:
    text: str
    receipt: str
    release: str  # the release that answered


class Asker:
    """Every prompt is a session of its own, at temperature 0, one at a time: the same release gives the same tokens."""

    def __init__(self, server: DemoServer) -> None:
        # Loopback only: a proxy from the environment would be asked for 127.0.0.1 otherwise.
        self._client = OpenAI(
            base_url=f"{server.base_url}/v1",
            api_key=server.client_token,
            max_retries=0,
            http_client=DefaultHttpxClient(trust_env=False, timeout=120),
        )
        self.model = self._client.models.list().data[0].id

    def ask(self, prompt: str, *, max_tokens: int = REPLY_TOKENS) -> Reply:
        raw = self._client.chat.completions.with_raw_response.create(
            model=self.model,
            messages=[{"role": "user", "content": prompt}],
            temperature=0,
            max_tokens=max_tokens,
            extra_headers=_new_session(),
        )
        completion = raw.parse()
        return Reply(completion.choices[0].message.content or "", raw.headers["x-reef-agent-record-id"], raw.headers["x-reef-release-id"])

    def ask_all(self, prompts: Sequence[str], narrator: Narrator, text: str) -> list[Reply]:
        replies: list[Reply] = []
        with narrator.bar(text, total=len(prompts)) as bar:
            for prompt in prompts:
                replies.append(self.ask(prompt))
                bar.advance()
        return replies

    def open_stream(self, prompt: str, max_tokens: int) -> OpenStream:
        raw = self._client.chat.completions.with_raw_response.create(
            model=self.model,
            messages=[{"role": "user", "content": prompt}],
            temperature=0,
            max_tokens=max_tokens,
            stream=True,
            extra_headers=_new_session(),
        )
        return OpenStream(raw.parse(), raw.headers["x-reef-release-id"])


def _new_session() -> dict[str, str]:
    """Without an id of its own, a prompt that is asked again would join the session that first asked it, and that one's release."""
    return {"x-reef-tag-session": f"demo-{uuid.uuid4().hex}", "x-reef-tag-client": "reef-demo"}


class OpenStream:
    """A reply that is still being written. `pieces` yields text; `receipt` is there when it has ended."""

    def __init__(self, stream: Stream[ChatCompletionChunk], release: str) -> None:
        self._stream = stream
        self.release = release
        self.receipt = ""

    def pieces(self) -> Iterator[str]:
        for chunk in self._stream:
            reef = (chunk.model_extra or {}).get("reef")
            if isinstance(reef, dict):
                self.receipt = str(reef.get("agent_record_id", ""))
            if chunk.choices and chunk.choices[0].delta.content:
                yield chunk.choices[0].delta.content
