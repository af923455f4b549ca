"""codex is an adapter as any other."""

from __future__ import annotations

import pytest

from adapters.codex.adapter import CodexAdapter
from tests.adapters.contract import AdapterContract


class TestCodex(AdapterContract):
    @pytest.fixture
    def adapter(self) -> CodexAdapter:
        return CodexAdapter()
