"""Tries a grammar in a process of its own (`grammar_worker`) before the engine compiles it: some make llguidance compute for ever."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict

from daemon.engine.llama.confined import ConfinedProcess, Ended
from daemon.errors import EngineError

_MODULE = "daemon.engine.llama.structure.grammar_worker"
_REMEMBERED = 256


class GrammarCheck:
    """One process, started with the first grammar; calls from several threads wait for one another.

    Args:
        cpu_limit_s: computing time for one grammar. Most take a millisecond, one of a thousand properties takes half a second.
    """

    def __init__(self, cpu_limit_s: float = 2.0) -> None:
        self._cpu_limit_s = cpu_limit_s
        self._process = ConfinedProcess(_MODULE, "grammars")
        self._good: OrderedDict[bytes, None] = OrderedDict()  # hashes of grammars that compile: an agent sends the same again and again
        self._lock = threading.Lock()

    def fault(self, grammar: str) -> str:
        """Why llguidance cannot compile it, in its words; empty if it can. Raises EngineError if there is no telling."""
        name = hashlib.sha256(grammar.encode(errors="replace")).digest()
        with self._lock:
            if name in self._good:
                self._good.move_to_end(name)
                return ""
            fault = self._ask(grammar)
            if not fault:
                self._good[name] = None
                if len(self._good) > _REMEMBERED:
                    self._good.popitem(last=False)
            return fault

    def close(self) -> None:
        """End the process; the next grammar starts another."""
        with self._lock:
            self._process.close()

    def _ask(self, grammar: str) -> str:
        """Once more if something else than this grammar brought the process down."""
        for _ in range(2):
            try:
                if not self._process.runs:
                    self._process.start()
                return str(self._process.ask({"grammar": grammar, "cpu_limit_s": self._cpu_limit_s}).get("fault"))
            except Ended as ended:
                if ended.limit:
                    return f"it takes too much {ended.limit}"
            except OSError as error:
                raise EngineError(f"The process for grammars cannot be started: {error.strerror}.", "Try again in a moment.") from error
        raise EngineError("The process for grammars gave no answer.", "Try again in a moment.")
