"""opencode is an adapter as any other."""

from __future__ import annotations

import pytest

from adapters.opencode.adapter import OpencodeAdapter
from tests.adapters.contract import AdapterContract


class TestOpencode(AdapterContract):
    @pytest.fixture
    def adapter(self) -> OpencodeAdapter:
        return OpencodeAdapter()
