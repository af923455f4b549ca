"""A worker without a model, for the tests of the supervisor: it misbehaves as the text of its model file says."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from daemon.child_main import prepare, read_messages, send


def main() -> None:
    prepare()
    messages = read_messages()
    start = next(messages)
    how = Path(str(start["model"])).read_text()
    if how == "never ready":
        time.sleep(60)
    if how == "cannot load":
        send({"type": "failed", "id": -1, "kind": "DataError", "message": "llama.cpp cannot load it.", "hint": "Take another."})
        return
    send({"type": "ready", "context_tokens": 512, "pools": True, "tool_format": "hermes"})
    for message in messages:
        if message.get("type") == "tokenize":
            text = message.get("text")
            if text == "hang":
                time.sleep(60)
            if text == "die":
                os.kill(os.getpid(), signal.SIGKILL)
            if text == "slow":  # but it speaks
                for _ in range(12):
                    time.sleep(0.05)
                    send({"type": "stats", "active": 1, "queued": 0, "loras": []})
            send({"type": "result", "id": message["id"], "value": [os.getpid()]})


if __name__ == "__main__":
    main()
