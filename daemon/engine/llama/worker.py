"""The engine worker: `python -P -m daemon.engine.llama.worker`. Speaks `protocol` over stdin and stdout; logs to stderr."""

from __future__ import annotations

import ctypes
import sys
import threading
from queue import Empty, SimpleQueue

from llama_cpp import llama_cpp as native

from daemon.child_main import prepare, read_messages, send
from daemon.engine.llama.intake import Cancel, Command, Intake, Load, Stop, Submit, Unload
from daemon.engine.llama.loras import LoadedLoRAs
from daemon.engine.llama.model import LlamaModel
from daemon.engine.llama.protocol import WorkerSettings, error_to_json
from daemon.engine.llama.scheduler import Scheduler
from daemon.engine.llama.slots import SIDE_SLOTS
from daemon.engine.llama.template import ChatTemplate
from daemon.errors import Busy, ReefError
from daemon.gguf import read_header

QUEUE_LIMIT = 64  # of each priority: what learning asks for must not crowd out a live request
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

    def run(self) -> None:
        """Until the daemon closes our stdin."""
        while True:
            idle = self._scheduler.active == 0 and self._scheduler.queued == 0
            if not self._apply_all(wait=idle):
                return
            for message in self._scheduler.step():
                send(message)
            self._say_stats()

    def _apply_all(self, *, wait: bool) -> bool:
        """Apply what has come in; with `wait`, wait for the first. False: stop."""
        try:
            while True:
                command = self._commands.get(block=wait)
                wait = False
                if isinstance(command, Stop):
                    return False
                self._apply(command)
                self._say_stats()
        except Empty:
            return True

    def _apply(self, command: Command) -> None:
        if isinstance(command, Cancel):
            self._scheduler.cancel(command.id)
        elif isinstance(command, Submit):
            try:
                self._submit(command)
            except ReefError as error:
                send(error_to_json(command.job.id, error))
        elif isinstance(command, Load):
            try:
                self._loras.load(command.lora.id, command.lora.path)
                self._say_stats()
                send({"type": "result", "id": command.id, "value": None})
            except ReefError as error:
                send(error_to_json(command.id, error))
        elif isinstance(command, Unload):
            self._loras.unload(command.lora_id)
            self._say_stats()
            send({"type": "result", "id": command.id, "value": None})

    def _submit(self, command: Submit) -> None:
        if self._scheduler.waiting(command.job.priority) >= QUEUE_LIMIT:
            raise Busy(f"{QUEUE_LIMIT} requests are waiting for the engine already.", "Try again in a moment.", retry_after_s=2)
        if command.lora is not None:
            self._loras.load(command.lora.id, command.lora.path)
        self._scheduler.submit(command.job)

    def _say_stats(self) -> None:
        now = (self._scheduler.active, self._scheduler.queued, self._loras.ids)
        if now != self._said:
            self._said = now
            send({"type": "stats", "active": now[0], "queued": now[1], "loras": list(now[2])})


def main() -> int:
    prepare()
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
        template = ChatTemplate(
            header.chat_template,
            begin_text=vocabulary.begin_text,
            end_text=vocabulary.end_text,
            control_texts=vocabulary.control_texts,
        )
    except ReefError as error:
        send({**error_to_json(-1, error), "type": "failed"})
        return 1
    commands: SimpleQueue[Command] = SimpleQueue()
    intake = Intake(header, vocabulary, template, model.context_tokens, commands)
    loras = LoadedLoRAs(model)
    worker = Worker(Scheduler(model, vocabulary, loras, settings.streams), loras, commands)
    threading.Thread(target=intake.run, args=(messages,), name="intake", daemon=True).start()
    send({"type": "ready", "context_tokens": model.context_tokens})
    worker.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
