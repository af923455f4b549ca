from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from daemon.experience.reader import Reader
from daemon.experience.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.open(tmp_path / "experience.db")
    yield opened
    opened.close()


@pytest.fixture
def reader(store: Store) -> Iterator[Reader]:
    opened = Reader(store.path)
    yield opened
    opened.close()
