"""LoRAs stay while something uses them, make room when nothing does, and are freed only between two steps."""

from __future__ import annotations

import sys
import threading
import time
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from daemon.engine.llama.loras import LIMIT, LoadedLoRAs
from daemon.engine.llama.model import LoRAHandle
from daemon.errors import Busy


class _Loader:
    def __init__(self) -> None:
        self.freed: list[int] = []
        self.count = 0
        self.may_load = threading.Event()
        self.may_load.set()

    def load_lora(self, path: Path) -> LoRAHandle:
        assert self.may_load.wait(5)
        self.count += 1
        return LoRAHandle(self.count)

    def free_lora(self, lora: LoRAHandle) -> None:
        self.freed.append(lora)


@pytest.fixture
def loader() -> _Loader:
    return _Loader()


@pytest.fixture
def loras(loader: _Loader) -> LoadedLoRAs:
    return LoadedLoRAs(loader)


def test_loras_in_use_stay_and_unused_ones_make_room(loader: _Loader, loras: LoadedLoRAs) -> None:
    for index in range(LIMIT):
        loras.acquire(f"l{index}", Path("x"))
        if index:
            loras.release(f"l{index}")
    loras.unload("l0")
    loras.acquire("new", Path("x"))
    assert loader.freed == [], "a step may use it just now"
    assert loras.sweep() == ["l1"]
    assert loader.freed == [2], "the longest unused one"
    loras.release("l0")
    assert loras.sweep() == ["l0"]
    assert loader.freed == [2, 1]
    loras.acquire("l0", Path("x"))
    for name in loras.ids:
        loras.acquire(name, Path("x"))
    with pytest.raises(Busy):
        loras.acquire("too many", Path("x"))


def test_one_that_is_loaded_again_before_the_sweep_is_not_forgotten(loader: _Loader, loras: LoadedLoRAs) -> None:
    loras.acquire("a", Path("x"))
    loras.release("a")
    loras.unload("a")
    loras.acquire("a", Path("x"))
    assert loras.sweep() == [], "its cells are still good"
    assert loader.freed == [1]
    assert loras.handle("a") == 2


def test_neither_a_stream_nor_a_request_waits_for_a_file_that_another_needs(loader: _Loader, loras: LoadedLoRAs) -> None:
    loras.acquire("a", Path("x"))
    loader.may_load.clear()
    reading = threading.Thread(target=loras.acquire, args=("b", Path("x")))
    reading.start()
    assert loras.handle("a") == 1
    loras.acquire("a", Path("x"))
    loras.release("a")
    loras.release("a")
    assert loras.sweep() == []
    assert loras.ids == ("a",)
    loader.may_load.set()
    reading.join(5)
    assert loras.ids == ("a", "b")


def test_a_step_finds_its_lora_while_another_request_begins_to_use_it(loras: LoadedLoRAs, request: pytest.FixtureRequest) -> None:
    request.addfinalizer(partial(sys.setswitchinterval, sys.getswitchinterval()))
    sys.setswitchinterval(1e-4)  # else each line of the other thread waits five milliseconds for this one

    def slowly(_frame: FrameType, _event: str, _argument: Any) -> Any:
        time.sleep(0.0005)  # before each line
        return slowly

    def use() -> None:
        sys.settrace(slowly)
        for _ in range(20):
            loras.acquire("a", Path("x"))
            loras.release("a")

    loras.acquire("a", Path("x"))
    other = threading.Thread(target=use)
    other.start()
    while other.is_alive():
        assert loras.handle("a") == 1
        assert len(loras.ids) == 1
