"""Named instants at which a test kills the process, as a power cut would.

A crash between two steps of publishing cannot be produced from outside with any precision, so the steps name
themselves. Without `REEF_FAILPOINT` in the environment a failpoint is one dictionary look-up; only the fault tests
set it, and a user who does gets what it says.
"""

from __future__ import annotations

import os
import signal
from typing import Final

FAILPOINTS: Final = (
    "publish.lfs-written",  # weights durable, nothing refers to them
    "publish.commit-written",  # commit durable, no ref points to it
    "publish.smoke-loaded",  # the engine has loaded the LoRA
    "publish.head-moved",  # the new release is the head, the log does not know yet
    "publish.logged",  # the log knows, the engine still serves the old release
)

SWITCH_FAILPOINTS: Final = (
    "model.loaded",  # the other model answers in a second worker
    "model.prepared",  # releases without LoRA are durable, nothing refers to them
    "model.chosen",  # the settings name the other model
    "model.published",  # one scenario's release is its head, the others' are not
    "model.switched",  # the other model serves, the worker before still runs
)


def failpoint(name: str) -> None:
    """Kill this process with SIGKILL iff `REEF_FAILPOINT` is `name`."""
    if os.environ.get("REEF_FAILPOINT") == name:
        os.kill(os.getpid(), signal.SIGKILL)
