"""On the embedded model: a secret is gone from the token ids, and these spell the very text that is stored."""

from __future__ import annotations

from pathlib import Path

import pytest

from daemon.config import LlamaConfig
from daemon.engine.factory import make_engine
from daemon.paths import Home
from tests.daemon.running import running

pytestmark = pytest.mark.e2e
KEY = "sk-" + "aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY" * 2


async def test_masked_ids_spell_the_stored_conversation(tmp_path: Path) -> None:
    engine = make_engine(LlamaConfig(context=2048, streams=1), Home(tmp_path))
    async with running(tmp_path, engine) as daemon:
        words = f"Zürich, 東京: my key is {KEY} and again {KEY}. Say it."
        body = {"model": engine.model.id, "messages": [{"role": "user", "content": words}], "temperature": 0, "max_tokens": 48}
        answer = await daemon.client.post("/v1/chat/completions", json=body)
        stored = daemon.services.reader.inference(answer.headers["x-reef-agent-record-id"])
        tokens = stored.tokens
        assert tokens is not None and len(tokens.masked) >= 2 and stored.redactions >= 2
        spelled = b"".join(await engine.pieces(list(tokens.prompt))).decode()
        assert KEY[:12] not in spelled and spelled.count("[redacted:api-key]") == 2
        assert spelled == b"".join(await engine.pieces(await engine.render(stored.messages))).decode()
        reply = b"".join(await engine.pieces(list(tokens.completion))).decode()
        assert KEY[:12] not in reply and str(stored.reply["content"]).strip() in reply
        assert len(tokens.logprobs) == len(tokens.completion)
        values = await engine.score([*tokens.prompt, *tokens.completion])
        assert len(values) == len(tokens.prompt) + len(tokens.completion) - 1, "they can be trained on"
