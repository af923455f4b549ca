"""`reef-pi`: a small shell script that starts Reef's pi on Reef's model, in the folder where it is typed."""

from __future__ import annotations

import shlex
from pathlib import Path

from adapters.pi.runtime import Runtime
from daemon.files import write_atomic

NAME = "reef-pi"

_SCRIPT = """\
#!/bin/sh
# Starts pi on the model that Reef serves. Written by `reef install pi`; `reef install pi --uninstall` removes it.
PATH={node_bin}:"$PATH"
PI_CODING_AGENT_DIR={agent_folder}
PI_OFFLINE=1
PI_TELEMETRY=0
export PATH PI_CODING_AGENT_DIR PI_OFFLINE PI_TELEMETRY
exec {pi} "$@"
"""


def write_launcher(path: Path, runtime: Runtime, agent_folder: Path) -> None:
    script = _SCRIPT.format(
        node_bin=shlex.quote(str(runtime.node_bin)),
        agent_folder=shlex.quote(str(agent_folder)),
        pi=shlex.quote(str(runtime.pi)),
    )
    write_atomic(path, script, mode=0o755)
