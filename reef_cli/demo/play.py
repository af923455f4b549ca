"""The demo itself, step by step. Every claim is checked while it is told; nothing here says in advance what comes out."""

from __future__ import annotations

import math
from dataclasses import dataclass

from rich.console import Console

from daemon.records import JSON, JSONObject
from reef_cli.demo.asker import Asker, Reply
from reef_cli.demo.loop import SCENARIO, Loop, RunResult
from reef_cli.demo.narrator import Narrator, one_line
from reef_cli.demo.server import DemoServer
from reef_cli.demo.swap import swap_under_a_stream
from reef_cli.demo.tasks import write_tasks
from reef_cli.demo.workload import Workload
from reef_cli.output import part, text

_SHOWN = 3  # exchanges shown of many
_LONG = "Write a long story about a ship and its crew."


@dataclass(frozen=True, slots=True)
class Stage:
    """What one release answered."""

    name: str
    release: str
    held_out: list[Reply]
    unrelated: list[Reply]
    probe: float  # mean loss of general text, nats a token


class Demo:
    def __init__(self, workload: Workload, server: DemoServer, console: Console) -> None:
        self._workload = workload
        self._server = server
        self._narrator = Narrator(console)
        self._asker = Asker(server)
        self._loop = Loop(server)
        self._stages: list[Stage] = []
        self._runs: dict[str, RunResult] = {}  # by the stage that follows
        self._failures: list[str] = []

    def play(self) -> bool:
        """Run all steps; True if every one held."""
        self._serve()
        self._correct()
        self._narrator.heading("Before: prompts that nobody corrected")
        self._measure("before")
        self._learn("demos", "The corrections as examples in the prompt", "after demos")
        self._learn("sft", "The corrections as weights: a LoRA is trained here, beside the server", "after sft")
        if not any(run.promoted for run in self._runs.values()):
            self._check(False, "the gate promoted neither candidate, so there is nothing to roll back")
            return self._end()
        self._swap()
        self._narrator.heading("After the rollback")
        self._measure("rolled back")
        self._compare()
        self._list()
        return self._end()

    def summary(self) -> JSONObject:
        """What was measured, for programs."""
        stages: list[JSON] = [
            {
                "name": stage.name,
                "release": stage.release,
                "form": self._form(stage),
                "tasks": len(stage.held_out),
                "probe": self._probe(stage),
            }
            for stage in self._stages
        ]
        runs: JSONObject = {name: {"verdict": run.verdict, "sentence": run.sentence} for name, run in self._runs.items()}
        return {"held": not self._failures, "failures": list(self._failures), "stages": stages, "runs": runs}

    def _serve(self) -> None:
        self._narrator.heading("A daemon of the demo's own")
        self._narrator.say(f"{self._server.base_url}/v1 serves {self._asker.model}; home {self._server.home.root}")
        self._narrator.say(f"Workload: {self._workload.source}")
        path = write_tasks(self._server.home.tasks / SCENARIO, self._workload)
        counts = f"{len(self._workload.held_in)} held-in, {len(self._workload.held_out)} held-out, {len(self._workload.sealed)} sealed"
        self._narrator.say(f"Tasks for the gate, in {path}: {counts}")

    def _correct(self) -> None:
        corrections = self._workload.corrections
        self._narrator.heading(f"{len(corrections)} prompts through the OpenAI SDK, each reply corrected by the user")
        replies = self._asker.ask_all([correction.prompt for correction in corrections], self._narrator, "asking")
        for correction, reply in zip(corrections, replies, strict=True):
            self._loop.correct(reply.receipt, correction.reply)
        for correction, reply in list(zip(corrections, replies, strict=True))[:_SHOWN]:
            self._narrator.exchange(correction.prompt, reply.text)
            self._narrator.say(f"  corrected to: {one_line(correction.reply)}")
        stored = sum(bool(self._loop.completion_tokens(reply.receipt)) for reply in replies)
        self._check(stored == len(replies), f"each of the {len(replies)} receipts leads to a stored record with its token ids")

    def _measure(self, name: str) -> None:
        held_out = self._asker.ask_all(self._workload.held_out, self._narrator, f"{len(self._workload.held_out)} held-out prompts")
        unrelated = self._asker.ask_all(self._workload.unrelated, self._narrator, f"{len(self._workload.unrelated)} unrelated prompts")
        stage = Stage(name, self._loop.head(), held_out, unrelated, self._probe_of(name))
        self._stages.append(stage)
        for prompt, reply in list(zip(self._workload.held_out, held_out, strict=True))[:_SHOWN]:
            self._narrator.exchange(prompt, reply.text)
        self._check(
            all(reply.release == stage.release for reply in (*held_out, *unrelated)), f"every reply came from the head, {stage.release}"
        )
        self._table()

    def _learn(self, recipe: str, title: str, stage: str) -> None:
        self._narrator.heading(title)
        head = self._loop.head()
        run = self._loop.evolve(recipe, self._narrator)
        self._runs[stage] = run
        self._narrator.say(f"{run.verdict}: {run.sentence}")
        self._check(run.promoted, f"the gate promoted what {recipe} proposed")
        if run.promoted:
            self._check(self._loop.head() == run.release, f"{run.release} serves now, without a restart")
        else:
            self._check(self._loop.head() == head, f"{head} serves on, as the gate said")
        before = self._form(self._stages[-1])
        self._measure(stage)
        if run.promoted:
            self._check(self._form(self._stages[-1]) > before, "more held-out replies have the wanted form than before")

    def _swap(self) -> None:
        self._narrator.heading("Roll back to the first release while a reply is being written")
        outcome = swap_under_a_stream(self._asker, self._loop, (*self._workload.unrelated, _LONG), self._stages[0].release)
        self._narrator.say(f"{outcome.admitted} began to answer: {one_line(outcome.prompt)}")
        self._narrator.say(
            f"After {outcome.pieces_before} pieces {outcome.published} was published, with the content of {self._stages[0].release}"
        )
        self._narrator.say(f"A new session was answered by {outcome.other}; the open stream went on for {outcome.pieces_after} more pieces")
        self._check(outcome.pieces_after > 0 and outcome.other == outcome.published, "the swap happened under the open stream")
        self._check(outcome.same_tokens, f"the stream's reply is that of {outcome.admitted} alone, token for token")

    def _compare(self) -> None:
        first, last = self._stages[0], self._stages[-1]
        pairs = list(zip((*first.held_out, *first.unrelated), (*last.held_out, *last.unrelated), strict=True))
        same = sum(self._loop.completion_tokens(before.receipt) == self._loop.completion_tokens(after.receipt) for before, after in pairs)
        self._check(same == len(pairs), f"{same} of {len(pairs)} replies are those of the first release, token for token")
        self._check(self._form(first) == self._form(last), "the form is back at its first value")
        self._check(math.isclose(first.probe, last.probe, rel_tol=1e-6), "so is the loss of general text")
        self._narrator.heading("Unrelated questions, side by side")
        shown = self._stages[:-1]
        rows = [
            (prompt, *(one_line(stage.unrelated[number].text, 160) for stage in shown))
            for number, prompt in enumerate(self._workload.unrelated)
        ]
        self._narrator.table(("asked", *(f"{stage.release}, {stage.name}" for stage in shown)), rows, numbers_from=len(shown) + 1)

    def _list(self) -> None:
        self._narrator.heading("The releases, newest first")
        rows = []
        for release in self._loop.releases():
            evaluation = part(release, "evaluation")
            rows.append(
                (text(release.get("release_id")), text(release.get("operation")), text(release.get("change")), _held_out(evaluation))
            )
        self._narrator.table(("release", "operation", "what changed", "held-out by the gate"), rows, numbers_from=3)

    def _table(self) -> None:
        count = len(self._workload.held_out)
        rows = [
            (stage.name, stage.release, f"{round(self._form(stage) * count)} of {count}", f"{self._form(stage):.2f}", self._probe(stage))
            for stage in self._stages
        ]
        self._narrator.table(("held-out prompts", "release", "of the wanted form", "share", "loss of general text"), rows, numbers_from=2)

    def _probe_of(self, name: str) -> float:
        """As the run measured it that changed the weights; as before where none did; measured here otherwise."""
        run = self._runs.get(name)
        if run is None:
            return self._loop.general_loss(self._narrator)
        return run.probe_after if run.promoted and run.probe_after is not None else self._stages[-1].probe

    def _probe(self, stage: Stage) -> str:
        rise = stage.probe / self._stages[0].probe - 1
        return f"{stage.probe:.3f} ({rise:+.1%})"

    def _form(self, stage: Stage) -> float:
        return self._workload.form([reply.text for reply in stage.held_out])

    def _check(self, held: bool, claim: str) -> None:
        self._narrator.check(held, claim)
        if not held:
            self._failures.append(claim)

    def _end(self) -> bool:
        self._narrator.heading("Done" if not self._failures else "Not everything held")
        for claim in self._failures:
            self._narrator.say(f"FAILED: {claim}")
        if not self._failures:
            self._narrator.say("Every step held. Now with your own work: reef init, reef up, reef install pi")
        return not self._failures


def _held_out(evaluation: JSONObject) -> str:
    before, after = evaluation.get("held_out_before"), evaluation.get("held_out_after")
    if not isinstance(before, int | float) or not isinstance(after, int | float):
        return ""
    return f"{before:.2f} → {after:.2f}, +{text(evaluation.get('wins'))} −{text(evaluation.get('losses'))}"
