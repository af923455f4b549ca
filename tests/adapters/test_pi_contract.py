"""pi is an adapter as any other."""

from __future__ import annotations

import pytest

from adapters.pi.adapter import PiAdapter
from tests.adapters.contract import AdapterContract


class TestPi(AdapterContract):
    @pytest.fixture
    def adapter(self) -> PiAdapter:
        return PiAdapter()
