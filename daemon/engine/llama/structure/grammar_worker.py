"""The process that tries grammars first: `python -P -m daemon.engine.llama.structure.grammar_worker`, started by `grammar_check`.

A schema is a program for the library that compiles it, and some make it compute for ever. Here it may.
"""

from __future__ import annotations

import sys

from llguidance import LLMatcher, LLTokenizer

from daemon.child_main import prepare, read_messages, send
from daemon.engine.llama.confined_main import OUT_OF_MEMORY, confine, limit_time
from daemon.engine.llama.structure.grammar_limits import grammar_limits

_MEMORY_BYTES = 1 << 30  # of address space


def main() -> int:
    prepare()
    tokenizer = LLTokenizer("byte")
    confine(_MEMORY_BYTES)
    try:
        for message in read_messages():
            seconds = message.get("cpu_limit_s")
            limit_time(float(seconds) if isinstance(seconds, int | float) else 0.0)
            fault = _fault(tokenizer, str(message.get("grammar")))
            limit_time(0)
            send({"fault": fault})
    except MemoryError:
        return OUT_OF_MEMORY
    return 0


def _fault(tokenizer: LLTokenizer, grammar: str) -> str:
    """Compile it to the end, for single bytes in place of the model's tokens, and find what may come first."""
    matcher = LLMatcher(tokenizer, grammar, log_level=0, limits=grammar_limits())
    if not matcher.is_error():
        matcher.compute_bitmask()
    return matcher.get_error()


if __name__ == "__main__":
    sys.exit(main())
