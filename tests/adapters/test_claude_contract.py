"""Claude Code is an adapter as any other."""

from __future__ import annotations

import pytest

from adapters.claude.adapter import ClaudeAdapter
from tests.adapters.contract import AdapterContract


class TestClaude(AdapterContract):
    @pytest.fixture
    def adapter(self) -> ClaudeAdapter:
        return ClaudeAdapter()
