"""A child for the tests of daemon.children: answers each message, and does on demand what children do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

from daemon.child_main import prepare, read_messages, send


def main() -> None:
    prepare()
    print("a stray print must not break the message stream")
    if "--deaf" in sys.argv:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    send({"type": "hello"})
    for message in read_messages():
        if message.get("type") == "crash":
            os.kill(os.getpid(), signal.SIGKILL)
        elif message.get("type") == "count":
            number = message["to"]
            for value in range(number if isinstance(number, int) else 0):
                send({"value": value})
                time.sleep(0.01)
        elif message.get("type") == "priority":
            send({"nice": os.getpriority(os.PRIO_PROCESS, 0)})
        elif message.get("type") == "grandchild":
            send({"pid": subprocess.Popen(["sleep", "60"]).pid})
        else:
            send({"echo": message})
    if "--deaf" in sys.argv:
        time.sleep(60)


if __name__ == "__main__":
    main()
