"""The reference: the shortest loop that decodes a batch over llama.cpp's low-level API. A process of its own that knows nothing of Reef.

It greedily decodes `streams` sequences of `depth` tokens for `steps` steps, reading the prompts untimed. It speaks JSON lines: a
request {"streams", "depth", "steps", "layout"} in, {"tokens_per_s", "step_ms"} out. Layouts: "unified" (one key-value buffer for all
sequences), "separate" (one each), and "separate, flash" (with llama.cpp's own choice of attention kernel).
"""

from __future__ import annotations

import ctypes
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from llama_cpp import llama_cpp as native

LAYOUTS = ("unified", "separate", "separate, flash")
_PIECE = 128
_WARM_STEPS = 3


@dataclass(frozen=True)
class BareSpeed:
    tokens_per_s: float  # of all streams together
    step_ms: float  # median


class BareLoop:
    """The process, as the benchmark sees it. `environment` is what the engine's worker has: the same thread settings."""

    def __init__(self, model: Path, threads: int, environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(model), str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, **environment},
        )

    def measure(self, streams: int, depth: int, steps: int, layout: str = "separate") -> BareSpeed:
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("the bare loop has no pipes")
        self._process.stdin.write(json.dumps({"streams": streams, "depth": depth, "steps": steps, "layout": layout}) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError("the bare loop ended")
        return BareSpeed(**json.loads(answer))

    def close(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class _Loop:
    """Inside the process: one model, and one context at a time."""

    def __init__(self, model: str, threads: int) -> None:
        native.llama_backend_init()
        parameters = native.llama_model_default_params()
        self._model = native.llama_model_load_from_file(model.encode(), parameters)
        self._width = native.llama_vocab_n_tokens(native.llama_model_get_vocab(self._model))
        self._threads = threads
        self._batch = native.llama_batch_init(512, 0, 1)
        self._made: tuple[int, int, str] | None = None
        self._context: object = None

    def run(self, streams: int, depth: int, steps: int, layout: str) -> BareSpeed:
        self._prepare(streams, depth, layout, depth + steps + _WARM_STEPS)
        memory = native.llama_get_memory(self._context)
        tokens = [500 + stream for stream in range(streams)]
        took = []
        for step in range(_WARM_STEPS + steps):
            began = time.perf_counter()
            for stream, token in enumerate(tokens):
                self._put(stream, token, depth + step, stream, True)
            tokens = self._decode(streams)
            took.append(time.perf_counter() - began)
        for stream in range(streams):
            native.llama_memory_seq_rm(memory, stream, depth, -1)
        took = took[_WARM_STEPS:]
        return BareSpeed(streams * len(took) / sum(took), statistics.median(took) * 1000)

    def _prepare(self, streams: int, depth: int, layout: str, window: int) -> None:
        """A context of this shape whose sequences hold `depth` tokens each; kept from the run before if that was alike."""
        if self._made == (streams, depth, layout):
            return
        if self._context is not None:
            native.llama_free(self._context)
        settings = native.llama_context_default_params()
        settings.n_ctx = streams * (window + 255) // 256 * 256 + streams * 256
        settings.n_seq_max = streams
        settings.n_batch = settings.n_ubatch = 512
        settings.n_threads = settings.n_threads_batch = self._threads
        settings.kv_unified = layout == "unified"
        if "flash" not in layout:
            settings.flash_attn_type = native.LLAMA_FLASH_ATTN_TYPE_DISABLED
        settings.no_perf = True
        self._context = native.llama_init_from_model(self._model, settings)
        self._made = (streams, depth, layout)
        for position in range(depth):
            at = position % _PIECE
            self._put(at, 300 + position * 7 % 4000, position, 0, position == depth - 1)
            if at == _PIECE - 1 or position == depth - 1:
                self._decode(at + 1)
        # The other sequences hold the same cells: what a step costs does not depend on what the cells say.
        size = native.llama_state_seq_get_size(self._context, 0)
        state = (ctypes.c_uint8 * size)()
        native.llama_state_seq_get_data(self._context, state, size, 0)
        for stream in range(1, streams):
            native.llama_state_seq_set_data(self._context, state, size, stream)

    def _put(self, index: int, token: int, position: int, stream: int, wanted: bool) -> None:
        batch = self._batch
        batch.token[index], batch.pos[index], batch.n_seq_id[index] = token, position, 1
        batch.seq_id[index][0], batch.logits[index] = stream, wanted

    def _decode(self, count: int) -> list[int]:
        """The most likely next token of each row; of a piece of a prompt, of its last."""
        self._batch.n_tokens = count
        if native.llama_decode(self._context, self._batch) != 0:
            raise RuntimeError("llama_decode failed")
        rows = sum(self._batch.logits[index] != 0 for index in range(count))
        if not rows:
            return []
        logits = np.ctypeslib.as_array(native.llama_get_logits(self._context), shape=(rows, self._width))
        return [int(token) for token in logits.argmax(axis=1)]


def main() -> None:
    loop = _Loop(sys.argv[1], int(sys.argv[2]))
    for line in sys.stdin:
        speed = loop.run(**json.loads(line))
        print(json.dumps({"tokens_per_s": speed.tokens_per_s, "step_ms": speed.step_ms}), flush=True)


if __name__ == "__main__":
    main()
