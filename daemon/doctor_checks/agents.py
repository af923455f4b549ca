"""Coding agents on this machine that Reef can serve."""

from __future__ import annotations

from collections.abc import Iterator

from daemon.config import ServerConfig
from daemon.doctor_checks.finding import Finding, State
from daemon.errors import ReefError
from daemon.harness.adapter import InstallContext, adapter_names, find_adapter
from daemon.paths import Home


def check(home: Home, server: ServerConfig) -> Iterator[Finding]:
    for name in adapter_names():
        try:
            adapter = find_adapter(name)
            context = InstallContext(home.agents / name, f"http://{server.host}:{server.port}", home.client_token, "", 0, 0, name)
            found = adapter.detect(context)
        except ReefError as error:
            yield Finding(name, State.NOTE, error.message, error.hint)
            continue
        except Exception as error:  # noqa: BLE001 -- an adapter may be anybody's
            yield Finding(name, State.NOTE, f"The adapter {name} failed: {type(error).__name__}: {error}.", "Tell its author.")
            continue
        if found is None:
            yield Finding(name, State.NOTE, f"{adapter.title} is not installed here.", f"If you want it: reef install {name}")
        elif not found.supported:
            hint = f"Get one that is: {adapter.versions}; reef install {name}"
            yield Finding(name, State.NOTE, f"{adapter.title} {found.version} is not supported. {found.sentence}", hint)
        else:
            yield Finding(name, State.OK, f"{adapter.title} {found.version}: {' '.join(found.command)}")
