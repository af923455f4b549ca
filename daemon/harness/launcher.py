"""`reef-NAME`: a small shell script that starts an agent on Reef's model, in the folder where it is typed."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from urllib.parse import quote

from daemon.harness.runtime import Program

_SCRIPT = """\
#!/bin/sh
# Starts {title} on the model that Reef serves. Written by `reef install {name}`; `reef uninstall {name}` removes it.
# shellcheck disable=SC2016,SC2089,SC2090  # what stands in quotes is meant as it stands
{check}{assignments}
export {names}
if [ -n "${{http_proxy-}}${{https_proxy-}}${{all_proxy-}}${{HTTP_PROXY-}}${{HTTPS_PROXY-}}${{ALL_PROXY-}}" ]; then
    NO_PROXY=${{NO_PROXY-${{no_proxy-}}}}
    NO_PROXY=${{NO_PROXY:+$NO_PROXY,}}127.0.0.1,localhost,::1
    no_proxy=$NO_PROXY
    export NO_PROXY no_proxy
fi
{first}exec {command} "$@"
"""
_CHECK = """\
_reef_served=
[ -r {path} ] && read -r _reef_served <{path}
if [ -n "$_reef_served" ] && [ "$_reef_served" != {line} ]; then
    exec 3>&2
    if [ -z "${{REEF_RENEWED-}}" ] && [ -x {python} ] &&
        REEF_HOME={home} {python} -P -m reef_cli.main update {name} --model-only </dev/null 2>/dev/null >&3; then
        REEF_RENEWED=1 exec {launcher} "$@" 3>&-
    fi
    exec 3>&-
    printf '%s\\n' "Reef serves something else than {name} was set up for: $_reef_served. To renew it: reef update {name}" >&2
fi
unset _reef_served REEF_RENEWED
"""
_FOLDER = """\
{variable}={before}$(
    LC_ALL=C
    case $PWD in
    *[!\\ -~]* | *%*)
        printf '%s' "$PWD" | od -An -v -tu1 |
            awk '{{ for (i = 1; i <= NF; i++) printf(($i > 31 && $i < 127 && $i != 37) ? "%c" : "%%%02X", $i + 0) }}' ;;
    *) printf '%s' "$PWD" ;;
    esac
)"""
_PLAIN = "".join(chr(code) for code in range(32, 127) if chr(code) != "%")


@dataclass(frozen=True, slots=True)
class Served:
    """By what a launcher sees that its agent is out of date."""

    path: Path  # the file that says what the daemon serves
    line: str  # what it says while the agent is up to date
    home: Path  # Reef's


def launcher_name(agent: str) -> str:
    return f"reef-{agent}"


def launcher_script(
    name: str,
    title: str,
    program: Program,
    environment: Mapping[str, str],
    arguments: Sequence[str] = (),
    served: Served | None = None,
    read: Mapping[str, Path] = MappingProxyType({}),
    displaced: Sequence[str] = (),
    folder: str = "",
    first: str = "",
) -> str:
    """POSIX sh; whatever the folders are called.

    Args:
        environment: variables and their values.
        arguments: come before those that are typed.
        served: only the shell looks at it, which takes no time. Where it says something else, the agent's settings are renewed, and where
            that cannot be done a line says so; the agent is started in any case.
        read: variables that get the first line of a file when the agent starts: a token is written into no second file.
        displaced: those of `environment` whose value the agent gives back to what it starts: it finds it as REEF_WAS_NAME, empty for none.
        folder: the variable that gets the folder where the agent is started, as `plain_folder` writes it, behind what `environment` says.
        first: lines of sh that come just before the agent; `$1` and so on is what was typed.
    """
    check = ""
    if served is not None:
        launcher = launcher_path(served.path.parent / name, name)
        quoted = {
            "path": str(served.path),
            "line": served.line,
            "python": sys.executable,
            "home": str(served.home),
            "launcher": str(launcher),
        }
        check = _CHECK.format(name=name, **{part: shlex.quote(value) for part, value in quoted.items()})
    assignments = [f'{was(variable)}="${{{variable}-}}"' for variable in displaced]
    assignments += [f"{variable}={shlex.quote(value)}" for variable, value in environment.items()]
    assignments += [f"IFS= read -r {variable} <{shlex.quote(str(path))}" for variable, path in read.items()]
    names = [*map(was, displaced), *environment, *read]
    if folder:
        assignments.append(_FOLDER.format(variable=folder, before=shlex.quote(environment.get(folder, ""))))
        names += [folder] if folder not in environment else []
    if program.node_bin is not None:
        assignments.insert(0, f'PATH={shlex.quote(str(program.node_bin))}:"$PATH"')
        names.insert(0, "PATH")
    command = " ".join(shlex.quote(part) for part in (str(program.command), *arguments))
    lines = "\n".join(assignments)
    return _SCRIPT.format(title=title, name=name, check=check, assignments=lines, names=" ".join(names), first=first, command=command)


def was(variable: str) -> str:
    """Under which name the agent finds the user's own value of a variable that it gets another for."""
    return f"REEF_WAS_{variable}"


def plain_folder(folder: Path) -> str:
    """A folder's name for a header, which holds ASCII alone: anything else, and the percent sign, is percent-encoded as UTF-8."""
    return quote(str(folder), safe=_PLAIN)


def launcher_path(home: Path, agent: str) -> Path:
    return home / "bin" / launcher_name(agent)
