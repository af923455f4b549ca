"""What all agents from npm have in common: found or fetched, laid down with their launcher, started, taken away."""

from __future__ import annotations

import logging
import os
from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar

from daemon.errors import ReefError, Unsupported
from daemon.failpoints import failpoint
from daemon.harness.adapter import Adapter, Detected, InstallContext, Installed, Launch, Rendering, read_variables
from daemon.harness.installed import TREE, Binding, Manifest, read_tree, write_tree
from daemon.harness.installing import AGENT, Content, Place, held
from daemon.harness.launcher import Served, launcher_path, launcher_script, was
from daemon.harness.runtime import Package, Program, Runtime
from daemon.harness.served import SERVED, served_line
from daemon.harness_tree import HarnessTree

_log = logging.getLogger("reef.adapters")
_SMALL_WINDOW_TOKENS = 16_384


class NpmAdapter(Adapter):
    """Subclasses say which package, what the environment is, and how a tree becomes the agent's files and back."""

    package: ClassVar[Package]
    token_variables: ClassVar[tuple[str, ...]] = ()
    """Variables in which the agent takes the client's token, where it reads no file for it: filled when it starts, written nowhere."""

    displaced: ClassVar[tuple[str, ...]] = ()
    """Variables of the user's that `environment` hides from the agent, and that the agent gives back to what it starts."""

    folder_variable: ClassVar[str] = ""
    """Variable in which the agent takes the folder that it is started in, for a header of its requests; empty: none."""

    @abstractmethod
    def environment(self, context: InstallContext) -> dict[str, str]:
        """Variables that make the agent read its own folder and nothing of the user's; never a token."""

    def arguments(self, context: InstallContext) -> tuple[str, ...]:
        """Come before those that the user types."""
        return ()

    def first(self, context: InstallContext) -> str:
        """Lines of sh that the launcher runs just before the agent; what the user typed is `$1` and so on."""
        return ""

    def detect(self, context: InstallContext) -> Detected | None:
        """What was fetched, else what the machine has."""
        runtime = self.runtime(context)
        program = runtime.find() or runtime.own() or runtime.of_the_machine()
        if program is None:
            return None
        supported = self.package.accepts(program.version)
        sentence = "" if supported else f"Reef works with {self.package.range}; `reef install {self.name}` fetches one beside it."
        return Detected(program.version, (str(program.command),), supported, sentence)

    def install(self, context: InstallContext, seen: Mapping[str, str] = MappingProxyType({})) -> Installed:
        with held(context.home) as place:
            return self._lay_down(context, place, lambda: (self.render(context, place.present), ()), seen)

    def renew(self, context: InstallContext) -> Installed:
        with held(context.home) as place:
            laid = replace(context, tree=read_tree(context.home))
            return self._lay_down(laid, place, lambda: self._renewed(laid, place))

    def _renewed(self, context: InstallContext, place: Place) -> tuple[Rendering, Collection[str]]:
        """As it is to be now, with what was changed by hand; and what is to stay as it is."""
        now = self.read_back(context, place.current(self.reads))
        rendering = self.render(context, place.present)
        by_hand = self.render(replace(context, tree=now), place.present).files
        files = {path: by_hand.get(path, text) if path in rendering.shared else text for path, text in rendering.files.items()}
        rendering = replace(rendering, files=files)
        return rendering, place.foreign(agent_files(rendering))

    def _lay_down(
        self,
        context: InstallContext,
        place: Place,
        draw: Callable[[], tuple[Rendering, Collection[str]]],
        seen: Mapping[str, str] = MappingProxyType({}),
    ) -> Installed:
        place.check(agent_files(draw()[0]))  # first: what does not fit is refused before anything is fetched
        runtime = self.runtime(context)
        program = runtime.ensure(_log.info)
        rendering, kept = draw()  # anew: to fetch takes minutes, in which the agent may have written its files
        launcher = launcher_path(context.home, self.name)
        line = served_line(context.base_url, context.model_id, context.context_tokens)
        served = Served(context.home.parent / SERVED, line, context.home.parent.parent) if line is not None else None
        script = launcher_script(
            self.name,
            self.title,
            program,
            self.environment(context),
            self.arguments(context),
            served,
            self._read(context),
            self.displaced,
            self.folder_variable,
            self.first(context),
        )
        files = {
            **agent_files(rendering),
            launcher.relative_to(context.home).as_posix(): Content(script, 0o755),
            TREE: Content(write_tree(context.tree)),
        }
        before = place.manifest()
        manifest = Manifest(
            adapter=self.name,
            version=program.version,
            command=(str(program.command),),
            release_id=context.release_id,
            content_id=context.tree.content_id,
            binding=binding(context),
            shared=tuple(sorted(f"{AGENT}/{path}" for path in rendering.shared)),
            links=before.links if before else (),
        )
        safe = {f"{AGENT}/{path}" for path, text in seen.items() if place.present(path) == text}
        laid = place.lay_down(files, manifest, {*safe, TREE, launcher.relative_to(context.home).as_posix()}, kept)
        runtime.remove_others()
        notes = list(rendering.notes)
        if context.context_tokens < _SMALL_WINDOW_TOKENS:
            size = f"{context.context_tokens} tokens"
            notes.append(f"The served window of {size} is small for a coding agent: long sessions are compacted often.")
        return Installed(laid.files, program.version, tuple(notes))

    def uninstall(self, context: InstallContext) -> None:
        """Take away what was fetched and written. What a person put there stays, and what they would miss."""
        if not context.home.is_dir():
            return
        with held(context.home) as place:
            manifest = place.manifest()
            left: dict[str, str] = {}
            bare = self._without_harness(context, manifest, place) if manifest else {}
            for path in manifest.shared if manifest else ():
                below = path.removeprefix(f"{AGENT}/")
                text = place.present(below)
                text = bare.get(below, text) if text is not None else None
                rest = self.withdraw(below, text) if text is not None else None
                if rest is not None:
                    left[path] = rest
            self.runtime(context).remove()
            failpoint("uninstall.runtime-removed")
            place.take_away(left, [f"{AGENT}/{name}" for name in (*self.reads, *self.keeps)])

    def _without_harness(self, context: InstallContext, manifest: Manifest, place: Place) -> Mapping[str, str]:
        """The agent's files as they would be with a harness that sets nothing; empty where one of them cannot be read."""
        told = manifest.binding
        bare = replace(context, model_id=told.model_id, context_tokens=told.context_tokens, max_tokens=told.max_tokens, tree=HarnessTree())
        try:
            return self.render(bare, place.present).files
        except ReefError:
            return {}

    def launch(self, context: InstallContext, arguments: tuple[str, ...]) -> Launch:
        program = self.program(context)
        environment = program.environment({"PATH": os.environ.get("PATH", os.defpath)})
        hidden = {was(name): os.environ.get(name, "") for name in self.displaced}
        own = {**environment, **hidden, **self.environment(context)}
        return Launch((str(program.command), *self.arguments(context), *arguments), own, self._read(context))

    def own_environment(self, context: InstallContext) -> dict[str, str]:
        """`environment` with the token, for a process that is started here. Raises DataError: the token's file cannot be read."""
        return {**self.environment(context), **read_variables(self._read(context))}

    def _read(self, context: InstallContext) -> dict[str, Path]:
        return dict.fromkeys(self.token_variables, context.client_token_path)

    def program(self, context: InstallContext) -> Program:
        """Raises Unsupported where there is none."""
        program = self.runtime(context).find()
        if program is None:
            raise Unsupported(f"{self.title} is not installed.", f"Run `reef install {self.name}`.")
        return program

    def runtime(self, context: InstallContext) -> Runtime:
        return Runtime(context.home / "runtime", self.package)


def agent_folder(context: InstallContext) -> Path:
    return context.home / AGENT


def agent_files(rendering: Rendering) -> dict[str, Content]:
    """What is rendered, as files below the agent's own folder in its place."""
    return {f"{AGENT}/{path}": Content(text, 0o700 if path in rendering.executable else 0o600) for path, text in rendering.files.items()}


def binding(context: InstallContext) -> Binding:
    return Binding(
        base_url=context.base_url,
        scenario=context.scenario,
        model_id=context.model_id,
        context_tokens=context.context_tokens,
        max_tokens=context.max_tokens,
    )
