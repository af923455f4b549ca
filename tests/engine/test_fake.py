"""The scripted engine keeps the contract that the real ones keep, so that tests with it mean something."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from daemon.engine.base import Capability, LoRA
from daemon.errors import EngineError
from tests.engine.contract import EngineContract, collect, request
from tests.engine.fake import Reply, ScriptedEngine


@pytest.fixture
async def engine() -> AsyncIterator[ScriptedEngine]:
    scripted = ScriptedEngine()
    await scripted.start()
    yield scripted
    await scripted.stop()


@pytest.fixture
def lora(tmp_path: Path) -> LoRA:
    path = tmp_path / "lora.gguf"
    path.write_bytes(b"GGUF and more")
    return LoRA("ab" * 32, path)


class TestScriptedEngine(EngineContract):
    async def test_scripts(self, engine: ScriptedEngine, lora: LoRA) -> None:
        engine.replies["colour"] = Reply("blue", reasoning="hm", tool_calls=({"id": "call_1", "type": "function"},))
        text, finished = await collect(engine, request("a colour"))
        assert (text, finished.finish_reason) == ("blue", "tool_calls")
        engine.fail_after = (1, EngineError("gone"))
        with pytest.raises(EngineError):
            await collect(engine, request("x" * 50, max_tokens=None))
        assert (await collect(engine, request("hi", lora=lora)))[0] == "[lora abababab] echo: hi"[:12]


class TestScriptedEngineWithoutCapabilities(EngineContract):
    @pytest.fixture
    async def engine(self) -> ScriptedEngine:
        scripted = ScriptedEngine(capabilities=Capability.NONE)
        await scripted.start()
        return scripted
