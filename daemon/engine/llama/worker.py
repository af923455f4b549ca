"""The engine worker: `python -P -m daemon.engine.llama.worker`. Speaks `protocol` over stdin and stdout; logs to stderr."""

from __future__ import annotations

import ctypes
import gc
import sys
import threading
import time
from queue import SimpleQueue

from llama_cpp import llama_cpp as native

from daemon.child_main import prepare, read_messages, send, send_all
from daemon.engine.llama.cache.slots import SIDE_SLOTS
from daemon.engine.llama.chat.prompts import Prompts
from daemon.engine.llama.chat.renderer import Renderer, TemplateSource
from daemon.engine.llama.formats.families import OURS, format_of
from daemon.engine.llama.intake import Cancel, Command, Intake, Load, Stop, Submit, Unload
from daemon.engine.llama.loras import LoadedLoRAs
from daemon.engine.llama.model import LlamaModel
from daemon.engine.llama.pace import Pace
from daemon.engine.llama.protocol import WorkerSettings, error_to_json
from daemon.engine.llama.scheduler import Scheduler
from daemon.engine.llama.sequence import POOLING
from daemon.engine.llama.structure.structure import Structures
from daemon.errors import ReefError
from daemon.gguf import read_header
from daemon.records import JSONObject

_SAY_S = 1.0
_SWITCH_S = 0.0005  # how long the intake's thread may keep the interpreter from the one that computes
_WARNING = 3  # GGML_LOG_LEVEL_WARN; less is said at every load and helps nobody


def _log(level: int, text: bytes, _data: ctypes.c_void_p) -> None:
    if level >= _WARNING:
        sys.stderr.write(text.decode(errors="replace"))


class Worker:
    """Applies commands between steps and sends what the scheduler says."""

    def __init__(self, scheduler: Scheduler, loras: LoadedLoRAs, commands: SimpleQueue[Command]) -> None:
        self._scheduler = scheduler
        self._loras = loras
        self._commands = commands
        self._said: tuple[int, int, tuple[str, ...]] = (0, 0, ())
        self._said_at = 0.0

    def run(self) -> None:
        """Until the daemon closes our stdin."""
        while True:
            idle = self._scheduler.active == 0 and self._scheduler.queued == 0
            if not self._apply_all(wait=idle):
                return
            messages = self._scheduler.step()
            stats = self._stats()
            if stats is not None:
                messages = [*messages, stats]
            if messages:
                send_all(messages)

    def _apply_all(self, *, wait: bool) -> bool:
        """Apply what has come in; with `wait`, wait for the first. False: stop."""
        while wait or not self._commands.empty():
            command = self._commands.get()
            wait = False
            if isinstance(command, Stop):
                return False
            self._apply(command)
        return True

    def _apply(self, command: Command) -> None:
        if isinstance(command, Cancel):
            self._scheduler.cancel(command.id)
        elif isinstance(command, Submit):
            try:
                self._scheduler.submit(command.job)
            except ReefError as error:
                send(error_to_json(command.job.id, error))
        elif isinstance(command, Load):
            self._loras.release(command.lora.id)
            self._scheduler.sweep()
            self._answer(command.id)
        elif isinstance(command, Unload):
            self._loras.unload(command.lora_id)
            self._scheduler.sweep()
            self._answer(command.id)

    def _answer(self, call: int) -> None:
        """What was done shows in the stats when the answer is there."""
        stats = self._stats()
        send_all([*([stats] if stats else []), {"type": "result", "id": call, "value": None}])

    def _stats(self) -> JSONObject | None:
        """If they have changed; and while there is work now and then anyway: they tell the speed, and that we live."""
        now = (self._scheduler.active, self._scheduler.queued, self._loras.ids)
        at = time.monotonic()
        if now == self._said and (at - self._said_at < _SAY_S or not now[0] + now[1]):
            return None
        self._said, self._said_at = now, at
        return {
            "type": "stats",
            "active": now[0],
            "queued": now[1],
            "loras": list(now[2]),
            "generated": self._scheduler.generated_tokens,
            "cache": self._scheduler.cache_stats(),
        }


def main() -> int:
    prepare()
    sys.setswitchinterval(_SWITCH_S)
    log = native.llama_log_callback(_log)  # kept alive by this frame, which lasts as long as the process
    native.llama_log_set(log, ctypes.c_void_p(None))
    messages = read_messages()
    first = next(messages, None)
    if first is None:
        return 0
    try:
        settings = WorkerSettings.model_validate({key: value for key, value in first.items() if key != "type"})
        header = read_header(settings.model)
        model = LlamaModel(settings, settings.streams + SIDE_SLOTS)
        vocabulary = model.vocabulary
        source = TemplateSource(
            header.chat_template,
            vocabulary.begin_text,
            vocabulary.end_text,
            vocabulary.control_texts,
            tuple(sorted(vocabulary.defined_texts)),
        )
        renderer = Renderer(source)
        renderer.start()
        loras = LoadedLoRAs(model)
        scheduler = Scheduler(model, vocabulary, loras, settings.streams, settings.cache_bytes, Pace())
    except ReefError as error:
        send({**error_to_json(-1, error), "type": "failed"})
        return 1
    commands: SimpleQueue[Command] = SimpleQueue()
    own_format = format_of(header.chat_template)
    prompts = Prompts(vocabulary, renderer, own_format, model.context_tokens)
    intake = Intake(header, vocabulary, prompts, Structures(vocabulary), loras, commands, model.context_tokens)
    worker = Worker(scheduler, loras, commands)
    threading.Thread(target=intake.run, args=(messages,), name="intake", daemon=True).start()
    send(
        {
            "type": "ready",
            "context_tokens": model.context_tokens,
            "pools": header.integer(f"{header.architecture}.pooling_type") in POOLING,
            "fill_in_middle": vocabulary.fill_tokens is not None,
            "tool_format": (own_format if renderer.knows_tools else OURS).name,
        }
    )
    gc.freeze()  # what is here now stays: to look through it again and again would be a gap in every stream
    worker.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
