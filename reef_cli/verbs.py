"""The verbs, in the order in which the help shows them, each with its one sentence.

A verb's file, `commands/<verb>.py`, is imported only when that verb is typed, so that `reef --help` stays quick.
Its function's docstring continues this sentence: details, then examples.
"""

from __future__ import annotations

import importlib
import keyword
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Verb:
    name: str
    panel: str
    sentence: str

    def load(self) -> Callable[..., None]:
        """Import the verb's file and return its function. Both end in an underscore where Python has the word for itself."""
        name = f"{self.name}_" if keyword.iskeyword(self.name) else self.name
        function = vars(importlib.import_module(f"reef_cli.commands.{name}"))[name]
        if not callable(function):
            raise TypeError(f"reef_cli.commands.{name} has no function {name}")
        return function  # type: ignore[no-any-return]  # typer reads its signature


START, DAEMON, FEEDBACK, LEARN, RELEASES = "Start", "Daemon", "Sessions and feedback", "Learning", "Releases"

VERBS = (
    Verb("init", START, "Set up Reef's home: the engine, the configuration and the tokens."),
    Verb("demo", START, "Play the whole loop on real input, in a temporary home."),
    Verb("install", START, "Install a coding agent that works on the model that Reef serves."),
    Verb("update", START, "Bring installed agents to the harness and the model that serve now."),
    Verb("uninstall", START, "Take an installed agent away."),
    Verb("adapters", START, "List the coding agents that Reef knows, and what each cannot do."),
    Verb("connect", START, "Point an editor or another client at Reef by its own settings, or take them back."),
    Verb("tui", START, "Open the app: releases, sessions, runs and the engine, live."),
    Verb("doctor", START, "Check everything that Reef needs, and say what to type where something is missing."),
    Verb("models", DAEMON, "List the models of this machine, download one, or serve another."),
    Verb("serve", DAEMON, "Run the daemon in the foreground."),
    Verb("up", DAEMON, "Start the daemon in the background."),
    Verb("down", DAEMON, "Stop the daemon in the background."),
    Verb("status", DAEMON, "Show what serves, what learns, what waits and what failed."),
    Verb("logs", DAEMON, "Show the daemon's log."),
    Verb("config", DAEMON, "Show the settings and where each comes from, or check them."),
    Verb("sessions", FEEDBACK, "List the recorded sessions, newest first."),
    Verb("session", FEEDBACK, "Show one session, turn by turn."),
    Verb("good", FEEDBACK, "Say that a reply, or a whole session, was good."),
    Verb("bad", FEEDBACK, "Say that a reply was bad, and how it should have been, or that a whole session was."),
    Verb("import", FEEDBACK, "Take in conversations that were held elsewhere, or the history of a git repository."),
    Verb("forget", FEEDBACK, "Erase a session or a record, from releases too."),
    Verb("export", FEEDBACK, "Write sessions in a form that other programs learn from."),
    Verb("train", LEARN, "Tell the scenario's recipe in words what to learn."),
    Verb("evolve", LEARN, "Run a recipe now and follow it."),
    Verb("runs", LEARN, "List the runs, show one, or cancel one."),
    Verb("releases", RELEASES, "List the releases, newest first, with what changed in each."),
    Verb("show", RELEASES, "Show one release: what it holds, where it comes from, how it was judged."),
    Verb("diff", RELEASES, "Compare two releases: files, LoRA, settings, evaluation."),
    Verb("why", RELEASES, "Find the release and the sessions behind a line of what serves, or behind the LoRA."),
    Verb("explain", RELEASES, "Write one file about a release, to show to others."),
    Verb("harness", RELEASES, "Show the rules, skills and commands that serve, publish a folder of them, or list what agents propose."),
    Verb("promote", RELEASES, "Let a held release serve."),
    Verb("dismiss", RELEASES, "Give a held release up."),
    Verb("rollback", RELEASES, "Serve an earlier release again."),
    Verb("undo", RELEASES, "Revert the last operation."),
    Verb("pin", RELEASES, "Keep a release whole, whatever is collected."),
    Verb("gc", RELEASES, "Make room: weights of old releases, and what nothing refers to."),
    Verb("fsck", RELEASES, "Verify every release, record and file in Reef's home."),
    Verb("backup", RELEASES, "Write everything that cannot be made again into one file, while the daemon runs."),
    Verb("restore", RELEASES, "Put a backup back."),
)
