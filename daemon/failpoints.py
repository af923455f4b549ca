"""Named instants at which a test kills the process, as a power cut would.

A crash between two steps of publishing, or of taking up a record, cannot be produced from outside with any precision, so the steps name
themselves. `REEF_FAILPOINT=NAME` in the environment kills at the first passage, `NAME:5` at the fifth. It is read once, for a failpoint
lies on the path of every request; only the fault tests set it, and a user who does gets what it says.
"""

from __future__ import annotations

import os
import signal
import threading
from typing import Final

FAILPOINTS: Final = (
    "publish.lfs-written",  # weights durable, nothing refers to them
    "publish.commit-written",  # commit durable, no ref points to it
    "publish.smoke-loaded",  # the engine has loaded the LoRA
    "publish.head-moved",  # the new release is the head, the log does not know yet
    "publish.logged",  # the log knows, the engine still serves the old release
)

STEP_FAILPOINTS: Final = (
    "publish.weights-stored",  # one LFS object has its name, its folder is not synced
    "publish.object-written",  # one git object has its name, others are missing
    "publish.followed",  # the mirror follows the head, and a promoted candidate is held no more
    "publish.noted",  # the log has the row; what a rollback frees is not counted as free
    "hold.held",  # the candidate is held, the log does not know
    "reject.traced",  # the trace of the loser stands, its weights are there still
    "reject.cleared",  # they are gone, the log does not know
)
"""Within the steps of publishing, and after a candidate's."""

PIN_FAILPOINTS: Final = (
    "pin.set",  # the pin is durable, the log does not know
    "pin.removed",  # the pin is gone, the log does not know
)

DISMISS_FAILPOINTS: Final = (
    "dismiss.traced",  # the trace stands, the candidate is held still
    "dismiss.dropped",  # it is held no more, the log does not know
)

GC_FAILPOINTS: Final = (
    "gc.named",  # the registry names the weights that go, all of them are there
    "gc.removed-one",  # one thing of the list is gone
    "gc.removed",  # all of it is gone, the log does not know
)

SWITCH_FAILPOINTS: Final = (
    "model.loaded",  # the other model answers in a second worker
    "model.prepared",  # releases without LoRA are durable, nothing refers to them
    "model.chosen",  # the settings name the other model
    "model.published",  # one scenario's release is its head, the others' are not
    "model.switched",  # the other model serves, the worker before still runs
)

ADMISSION_FAILPOINTS: Final = (
    "admission.request-read",  # the body is read and valid
    "admission.session-resolved",  # its session is known, the engine was not asked
    "admission.engine-answered",  # the whole reply is there, nothing of it is stored
    "admission.queued",  # the writer has the record in its queue
    "admission.journal-written",  # its entry is written and not synced
    "admission.committed",  # it is on disk, nobody was told
    "admission.receipt-sent",  # the last byte of the answer was handed to the socket
)

FILING_FAILPOINTS: Final = (
    "filing.in-transaction",  # rows of the journal's entries are written and not committed
    "filing.committed",  # they are in the tables, and in the journal too
    "filing.journal-emptied",  # nothing waits any more
)

FORGET_FAILPOINTS: Final = (
    "forget.head-clean",  # what serves is put right, old releases still hold it
    "forget.buried",  # no release holds it, the database does
    "forget.words-gone",  # searches find it no more, its records are there
    "forget.records-removed",  # its records are gone, their texts are not
)

RESTORE_FAILPOINTS: Final = (
    "restore.ready",  # unpacked, checked, and the renames are written down
    "restore.aside",  # what was there lies aside
    "restore.moved",  # one of the restored files has its place
)

INSTALL_FAILPOINTS: Final = (
    "install.fetched-one",  # npm has brought one of the packages, the folder has no name yet
    "install.fetched",  # the program has its folder, no file of its agent is laid down
    "install.staged",  # every file of an agent lies beside, nothing names them
    "install.journal-written",  # the journal names them, none has its place
    "install.put-one",  # one has its place
    "install.written",  # all have, the journal is there still
    "install.laid-down",  # all is there, but for the link by which it can be typed
    "install.linked",  # the link is there, and nothing notes it
)

UNINSTALL_FAILPOINTS: Final = (
    "uninstall.runtime-removed",  # the program is gone
    "uninstall.removed-one",  # one of the agent's files is gone
    "uninstall.removed",  # all are, what the agent wrote for itself is there
    "uninstall.linked",  # all is gone but for the link by which it was typed
)

_armed, _, _count = os.environ.get("REEF_FAILPOINT", "").partition(":")
_left = int(_count) if _count.isdecimal() else 1
_lock = threading.Lock()


def failpoint(name: str) -> None:
    """Kill this process with SIGKILL iff `REEF_FAILPOINT` names this passage of `name`."""
    if name == _armed:
        _passed()


def _passed() -> None:
    global _left
    with _lock:
        _left -= 1
        if _left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)
