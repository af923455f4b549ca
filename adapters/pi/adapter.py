"""The adapter of pi: installed beside the user's own, pointed at Reef with the client's token, started, run without a person."""

from __future__ import annotations

import logging
import os
import shutil
from pathlib import Path

from adapters.pi.headless import run_headless
from adapters.pi.launcher import NAME as LAUNCHER
from adapters.pi.launcher import write_launcher
from adapters.pi.runtime import PI_VERSION, Runtime
from adapters.pi.settings import provider, remove_settings, write_settings
from adapters.pi.window import fit_window
from daemon.files import sha256_file
from daemon.harness.adapter import Adapter, Detected, HeadlessTask, InstallContext, Installed, Launch, TaskOutcome

_log = logging.getLogger("reef.adapters.pi")


class PiAdapter(Adapter):
    """Everything lies below the agent's own folder: `runtime/` (pi and Node), `agent/` (pi's configuration), `bin/reef-pi`."""

    name = "pi"
    title = "pi coding agent"
    versions = PI_VERSION

    def detect(self, context: InstallContext) -> Detected | None:
        """Reef's own pi. One that the user has is neither used nor touched."""
        version = _runtime(context).version()
        if version is None:
            return None
        supported = version == PI_VERSION
        sentence = "" if supported else f"Reef was tested with pi {PI_VERSION}; run `reef install pi` to renew it."
        return Detected(version, (str(_launcher(context)),), supported, sentence)

    def install(self, context: InstallContext) -> Installed:
        window = fit_window(context.context_tokens, context.max_tokens)
        runtime = _runtime(context)
        runtime.install(_log.info)
        reef = provider(context.base_url, context.scenario, context.client_token_path, context.model_id, window)
        write_settings(_agent_folder(context), reef, context.model_id, window)
        write_launcher(_launcher(context), runtime, _agent_folder(context))
        written = (_launcher(context), _agent_folder(context) / "models.json", _agent_folder(context) / "settings.json")
        notes = [f"Start it in a project's folder: {_launcher(context)}"]
        if window.context < 16_384:
            notes.append(f"The served window of {window.context} tokens is small for a coding agent: long sessions are compacted often.")
        return Installed({str(path.relative_to(context.home)): sha256_file(path) for path in written}, PI_VERSION, tuple(notes))

    def uninstall(self, context: InstallContext) -> None:
        """Take away pi, Node, the launcher and Reef's settings; sessions and files that a person added to the agent folder stay."""
        shutil.rmtree(_runtime(context).folder, ignore_errors=True)
        _launcher(context).unlink(missing_ok=True)
        remove_settings(_agent_folder(context))
        for folder in (_launcher(context).parent, _agent_folder(context), context.home):
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()

    def launch(self, context: InstallContext, arguments: tuple[str, ...]) -> Launch:
        runtime = _runtime(context)
        environment = runtime.environment(os.environ)
        added = {name: environment[name] for name in ("PATH", "PI_OFFLINE", "PI_TELEMETRY")}
        return Launch((str(runtime.pi), *arguments), {**added, "PI_CODING_AGENT_DIR": str(_agent_folder(context))})

    def run_task(self, context: InstallContext, task: HeadlessTask) -> TaskOutcome:
        return run_headless(_runtime(context), _agent_folder(context), task)


def _runtime(context: InstallContext) -> Runtime:
    return Runtime(context.home / "runtime")


def _agent_folder(context: InstallContext) -> Path:
    return context.home / "agent"


def _launcher(context: InstallContext) -> Path:
    return context.home / "bin" / LAUNCHER
