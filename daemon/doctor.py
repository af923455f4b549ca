"""`reef doctor`: everything that a first user trips over, each with what to type. It needs no daemon and changes nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path

from daemon.config import Config
from daemon.config_load import load
from daemon.doctor_checks import agents, engine, machine
from daemon.doctor_checks.finding import Finding, State
from daemon.errors import ReefError
from daemon.paths import Home

_SIGNS = {State.OK: "✓ ok     ", State.NOTE: "! note   ", State.FAIL: "✗ missing"}


def main(home: Home, serve_file: Path | None = None, *, json_output: bool = False) -> int:
    """Check, print, and return the exit code: 1 if something must be mended before Reef can serve."""
    findings = examine(home, serve_file)
    failed = [finding for finding in findings if finding.state is State.FAIL]
    if json_output:
        rows = [{"check": f.check, "state": f.state.value, "sentence": f.sentence, "hint": f.hint} for f in findings]
        print(json.dumps({"ok": not failed, "checks": rows}, indent=2))
        return 1 if failed else 0
    for finding in findings:
        print(f"{_SIGNS[finding.state]}  {finding.check:<14} {finding.sentence}")
        if finding.hint:
            print(f"{'':27}→ {finding.hint}")
    print()
    if failed:
        print(f"{len(failed)} of {len(findings)} checks failed.", flush=True)
    else:
        print("Reef can serve. Which coding agents will work on it: reef doctor --tools", flush=True)
    return 1 if failed else 0


def examine(home: Home, serve_file: Path | None = None) -> list[Finding]:
    """All checks, in the order in which a user would mend them. One that breaks is a finding itself."""
    findings: list[Finding] = []

    def run(name: str, check: Callable[[], Iterable[Finding]]) -> None:
        try:
            findings.extend(check())
        except ReefError as error:
            findings.append(Finding(name, State.FAIL, error.message, error.hint))
        except OSError as error:
            findings.append(Finding(name, State.FAIL, f"{name} could not be checked: {error}."))

    run("python", machine.python)
    run("packages", machine.packages)
    run("compiler", machine.compiler)
    run("home", lambda: machine.home_folder(home))
    run("tokens", lambda: machine.tokens(home))
    config = Config()

    def settings() -> Iterable[Finding]:
        nonlocal config
        loaded = load(home, serve_file, os.environ, {})
        config = loaded.config
        files = ", ".join(str(path) for path in loaded.files if path.exists()) or "no file, all defaults"
        yield Finding("configuration", State.OK, f"The settings hold ({files}).")

    run("configuration", settings)
    run("engine", lambda: engine.check(config.engine, home))
    run("port", lambda: machine.port(home, config.server))
    run("sandbox", machine.sandbox)
    run("agents", lambda: agents.check(home, config.server))
    return findings
