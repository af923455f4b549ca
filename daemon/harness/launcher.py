"""`reef-NAME`: a small shell script that starts an agent on Reef's model, in the folder where it is typed."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from daemon.harness.runtime import Program

_SCRIPT = """\
#!/bin/sh
# Starts {title} on the model that Reef serves. Written by `reef install {name}`; `reef uninstall {name}` removes it.
{assignments}
export {names}
exec {command} "$@"
"""


def launcher_name(agent: str) -> str:
    return f"reef-{agent}"


def launcher_script(name: str, title: str, program: Program, environment: Mapping[str, str], arguments: Sequence[str] = ()) -> str:
    """POSIX sh; whatever the folders are called. `arguments` come before those that are typed."""
    assignments = [f"{variable}={shlex.quote(value)}" for variable, value in environment.items()]
    names = [*environment]
    if program.node_bin is not None:
        assignments.insert(0, f'PATH={shlex.quote(str(program.node_bin))}:"$PATH"')
        names.insert(0, "PATH")
    command = " ".join(shlex.quote(part) for part in (str(program.command), *arguments))
    return _SCRIPT.format(title=title, name=name, assignments="\n".join(assignments), names=" ".join(names), command=command)


def launcher_path(home: Path, agent: str) -> Path:
    return home / "bin" / launcher_name(agent)
