"""One run of a recipe, in a process of its own: select, propose, evaluate, decide.

`python -P -m daemon.evolution.run_process JOBFILE`. Events go to stdout, one JSON object a line; the outcome is a file beside the
job. Nothing here changes what serves: the daemon reads the outcome and publishes. A recipe's code runs in this process alone, so
what it raises becomes the run's failure, and what it blocks is ended from outside.
"""

from __future__ import annotations

import logging
import os
import queue
import random
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypeVar

import httpx

from daemon import child_main
from daemon.engine.base import Capability
from daemon.errors import BadRequest, ConfigError, DataError, ReefError, Unsupported
from daemon.evolution.budget import Budget
from daemon.evolution.candidate import Candidate
from daemon.evolution.checkers import judge
from daemon.evolution.consent import unconfirmed
from daemon.evolution.context import RunContext
from daemon.evolution.discovery import find_recipe, validate_settings
from daemon.evolution.evaluate import Evaluation, Evaluator, Sides
from daemon.evolution.gate import Gate, PairedGate, Verdict
from daemon.evolution.job import CANDIDATE, OUTCOME_FILE, TOKEN_FILE, Outcome, Replayed, RunJob, read_job
from daemon.evolution.looks import Looks
from daemon.evolution.model_client import ModelClient
from daemon.evolution.play import Episode, Player
from daemon.evolution.progress import Progress
from daemon.evolution.proposal import Proposal, quarantine, realise, realise_again
from daemon.evolution.recipe import Batch, Recipe, RecipeSettings, Target
from daemon.evolution.tasks import load_tasks
from daemon.experience.stream import ExperienceStream, Turn
from daemon.files import write_atomic
from daemon.models import TRAINABLE_ARCHITECTURES
from daemon.paths import Home
from daemon.records import JSONObject
from daemon.versions.manifest import EvaluationSummary, RecipeFacts

_log = logging.getLogger("reef.run")
HEARTBEAT_S = 5.0
_REQUEST_TIMEOUT_S = 600.0
_ANSWER_TIMEOUT_S = 120.0


class _WholeStream(ExperienceStream):
    """For a run that a person asked for: what was consumed before counts as new."""

    def new(self, limit: int = 1000) -> list[Turn]:
        return self.all(limit)


class RunProcess:
    """The phases of one run, in order."""

    def __init__(self, job: RunJob, progress: Progress, answers: queue.Queue[JSONObject]) -> None:
        self._job = job
        self._progress = progress
        self._answers = answers  # what the daemon says
        self._tasks = load_tasks(job.tasks)

    def run(self) -> Outcome:
        """Raises ReefError with the sentence that the run fails with."""
        job, progress = self._job, self._progress
        if job.replays is not None:
            return self._run_again(job.replays)
        recipe = _find(job.recipe, job)
        _check_needs(recipe, job)
        facts = RecipeFacts(name=recipe.name, path=job.recipe, settings=recipe.settings.model_dump(mode="json"))
        progress.phase("select", f"recipe {recipe.name}")
        kind = _WholeStream if job.reread else ExperienceStream
        stream = kind.open(Home(job.home).database, job.scenario)
        batch = _plugin(recipe, "select", Batch, lambda: recipe.select(stream))
        if batch is None:
            settings, wanted = recipe.settings, ""
            if isinstance(settings, RecipeSettings):  # a recipe may have settings of its own, without this one
                wanted = f"; {recipe.name} waits for {settings.batch_size} usable exchanges"
            return Outcome(verdict="nothing", sentence=f"not enough {'' if job.reread else 'new '}experience yet{wanted}", recipe=facts)
        progress.emit("selected", turns=len(batch.turns), new=batch.new, skipped=dict(batch.skipped), records=list(batch.records))
        with _client(job.base_url, (job.folder / TOKEN_FILE).read_text(encoding="utf-8").strip()) as http:
            context = self._context(http)
            progress.phase("propose", f"from {len(batch.turns)} exchanges")
            candidate = _plugin(recipe, "propose", Candidate, lambda: recipe.propose(batch, context))
            if candidate is None:
                return Outcome(verdict="nothing", sentence="the recipe found nothing worth trying", recipe=facts)
            _check_target(recipe, candidate)
            proposal = realise(job.release, candidate, job.model)
            if not proposal.changes_anything:
                return Outcome(verdict="nothing", sentence="the candidate would change nothing", recipe=facts)
            evaluation = self._evaluate(recipe, proposal, context)
        return Outcome(
            verdict=_word(evaluation),
            sentence=evaluation.decision.sentence,
            change=candidate.change,
            reason=candidate.reason,
            mutations=candidate.mutations,
            harness=dict(proposal.tree.files),
            lora_folder=candidate.lora_folder,
            records=candidate.records,
            recipe=facts,
            summary=summary_of(evaluation),
            evaluation={
                **evaluation.to_json(),
                "reason": candidate.reason,
                "metrics": dict(candidate.metrics),
                "examples": [*sorted(proposal.examples)],
            },
        )

    def _run_again(self, replayed: Replayed) -> Outcome:
        """Evaluate a candidate of an earlier run on what serves now, by the gate of the recipe that made it."""
        job, progress, facts = self._job, self._progress, replayed.recipe
        progress.phase("replay", f"{replayed.release_id} was evaluated against {replayed.compared_with}; now on {job.release.id}")
        recipe = _maker(replayed, job) if facts is not None else None
        proposal = realise_again(job.release, replayed, job.model)
        with _client(job.base_url, (job.folder / TOKEN_FILE).read_text(encoding="utf-8").strip()) as http:
            evaluation = self._evaluate(recipe, proposal, self._context(http))
        return Outcome(
            verdict=_word(evaluation),
            sentence=f"{evaluation.decision.sentence} ({replayed.release_id} on {job.release.id})",
            change=replayed.change,
            harness=dict(proposal.tree.files),
            lora_folder=proposal.lora_folder,
            records=replayed.records,
            recipe=facts,
            summary=summary_of(evaluation),
            evaluation={**evaluation.to_json(), "replays": replayed.release_id, "examples": [*sorted(proposal.examples)]},
        )

    def _context(self, http: httpx.Client) -> RunContext:
        job = self._job
        model = ModelClient(http, f"/reef/scenarios/{job.scenario}/evaluation", job.release.id, model=job.model.id)
        workdir = job.folder / "work"
        workdir.mkdir(exist_ok=True)
        return RunContext(
            scenario=job.scenario,
            release=job.release,
            lora_folder=job.lora_folder,
            model=model,
            model_info=job.model,
            capabilities=job.can,
            teacher=_teacher(job, model),
            tasks=self._tasks.held_in,
            rng=random.Random(job.seed),
            progress=self._progress,
            workdir=workdir,
            seed=job.seed,
            limits=job.training,
            search_paths=job.search_paths,
        )

    def _evaluate(self, recipe: Recipe | None, proposal: Proposal, context: RunContext) -> Evaluation:
        job = self._job
        suspicious = quarantine(unconfirmed(job.release.tree, proposal.tree, job.personal, job.confirmed))  # before anything is run with it
        if suspicious is not None:
            self._progress.emit("decision", **suspicious.to_json())
            return Evaluation(suspicious)
        self._offer(proposal)
        own = _plugin(recipe, "gate", Gate, recipe.gate) if recipe is not None else None
        gate = own or job.gate.make()
        scratch, hidden = job.folder / "checks", (job.home, job.tasks)
        player = Player(
            context.model,
            context.model.at(CANDIDATE),
            lambda task, reply: judge(task, reply, scratch=scratch, hidden=hidden),
            self._progress,
            job.seed,
        )
        alpha = gate.alpha if isinstance(gate, PairedGate) else job.gate.alpha
        if not self._tasks.held_out:
            self._progress.note(f"No held-out task can decide: write some in {job.tasks}, as docs/tasks.md shows.")
        evaluator = Evaluator(gate, self._tasks, Looks(job.looks), player, self._progress, job.run_id, alpha)
        return evaluator.evaluate(
            Sides(
                base=context.model.at("base"),
                current=context.model,
                candidate=context.model.at(CANDIDATE),
                current_has_lora=job.release.lora is not None,
                weights_changed=proposal.lora_folder is not None,
                examples=proposal.examples,
            )
        )

    def _offer(self, proposal: Proposal) -> None:
        """Let the daemon load the candidate beside what serves, and wait until it answers for it."""
        self._progress.emit("candidate", **proposal.to_event())
        try:
            answer = self._answers.get(timeout=_ANSWER_TIMEOUT_S)
        except queue.Empty as error:
            raise DataError("The daemon did not take the candidate.", "See `reef logs`.") from error
        if answer.get("type") != "candidate_ready":
            raise DataError(f"The candidate cannot be loaded: {answer.get('message', '')}", str(answer.get("hint", "")))


def summary_of(evaluation: Evaluation) -> EvaluationSummary | None:
    """The numbers that the release list shows; None when nothing was played."""
    played = evaluation.held_out
    probe_rise = evaluation.probe.rise if evaluation.probe is not None else None
    if not played:
        return EvaluationSummary(probe_rise=probe_rise) if probe_rise is not None else None
    wins = sum(one.after.score > one.before.score for one in played)
    losses = sum(one.after.score < one.before.score for one in played)
    p = evaluation.decision.statistics.get("p")
    tokens = [sum(side.prompt_tokens + side.completion_tokens for side in sides) for sides in _sides(evaluation)]
    return EvaluationSummary(
        held_out_before=sum(max(0.0, one.before.score) for one in played) / len(played),
        held_out_after=sum(max(0.0, one.after.score) for one in played) / len(played),
        tasks=len(played),
        wins=wins,
        losses=losses,
        ties=len(played) - wins - losses,
        p=p if isinstance(p, float) else None,
        probe_rise=probe_rise,
        details={"tokens_before": tokens[0], "tokens_after": tokens[1]},
    )


def _sides(evaluation: Evaluation) -> tuple[list[Episode], list[Episode]]:
    return [one.before for one in evaluation.held_out], [one.after for one in evaluation.held_out]


def _word(evaluation: Evaluation) -> Literal["promoted", "held", "rejected"]:
    words: dict[Verdict, Literal["promoted", "held", "rejected"]] = {
        Verdict.PROMOTED: "promoted",
        Verdict.HELD: "held",
        Verdict.REJECTED: "rejected",
    }
    return words[evaluation.decision.verdict]


def _find(path: str, job: RunJob) -> Recipe:
    """Raises ConfigError: there is no such recipe, or a setting does not fit it."""
    recipe_class = find_recipe(path, job.search_paths)
    return recipe_class(validate_settings(recipe_class, job.settings))


def _maker(replayed: Replayed, job: RunJob) -> Recipe:
    """The recipe that made a candidate. Raises ConfigError where its gate cannot be asked again."""
    try:
        return _find(job.recipe, job)
    except ConfigError as error:
        raise ConfigError(
            f"{replayed.release_id} cannot be evaluated again, because the recipe that made it is not there as it was: {error.message}",
            "Put the recipe back, or run another on what serves now: `reef evolve`.",
        ) from error


def _check_needs(recipe: Recipe, job: RunJob) -> None:
    missing = recipe.needs & ~job.can
    if missing == Capability.TRAINABLE and job.model.path is not None:
        raise Unsupported(
            f"Models of the architecture {job.model.architecture} serve, but do not train.",
            f"These train: {', '.join(sorted(TRAINABLE_ARCHITECTURES))}. Or choose a harness recipe such as demos.",
        )
    if missing:
        words = ", ".join(name.replace("_", " ") for name in missing.names())
        raise Unsupported(
            f"The recipe {recipe.name} needs an engine that gives {words}; this one does not.",
            "Serve a GGUF file with the llama engine, or choose a harness recipe such as demos.",
        )


def _check_target(recipe: Recipe, candidate: Candidate) -> None:
    harness = candidate.hints is not None or bool(candidate.mutations)
    for changes, target in ((harness, Target.HARNESS), (candidate.lora_folder is not None, Target.MODEL)):
        if changes and target not in recipe.target:
            raise DataError(
                f"The recipe {recipe.name} changes the {str(target.name).lower()}, which is not its target.",
                f"Set target to Target.{target.name}, or to Target.BOTH.",
            )


_Result = TypeVar("_Result")


def _plugin(recipe: Recipe, what: str, kind: type, call: Callable[[], _Result | None]) -> _Result | None:
    """Call a recipe. What it raises, or returns against the interface, becomes a sentence; a traceback goes to the run's log."""
    try:
        returned = call()
    except ReefError:
        raise
    except Exception as error:
        _log.exception("the recipe %s failed in %s", recipe.name, what)
        raise BadRequest(
            f"The recipe {recipe.name} failed in {what}: {type(error).__name__}: {error}", "The traceback is in the run's log."
        ) from error
    if returned is not None and not isinstance(returned, kind):
        raise BadRequest(
            f"The recipe {recipe.name} returned a {type(returned).__name__} from {what}.", f"It must return a {kind.__name__}, or None."
        )
    return returned


def _client(base_url: str, token: str) -> httpx.Client:
    headers = {"authorization": f"Bearer {token}"} if token else {}
    return httpx.Client(base_url=base_url, headers=headers, timeout=_REQUEST_TIMEOUT_S, trust_env=False)


def _teacher(job: RunJob, model: ModelClient) -> ModelClient:
    choice = job.teacher
    if choice is None:
        return model
    key = os.environ.get(choice.api_key_env or "", "")
    budget = Budget(choice.spent, tokens_per_day=choice.tokens_per_day, cost_per_day=choice.cost_per_day)
    return ModelClient(_client(choice.url.rstrip("/") + "/", key), "", "", model=choice.model, budget=budget)


def _listen(answers: queue.Queue[JSONObject]) -> None:
    """Pass the daemon's messages on; end at once when it is gone."""
    # Unbuffered: the interpreter cannot end while a thread holds the lock of a buffered stdin.
    with open(0, "rb", buffering=0, closefd=False) as stdin:
        for message in child_main.read_messages(stdin):
            answers.put(message)
    os._exit(1)


def _beat(stop: threading.Event) -> None:
    """Say that this process is alive. A recipe that holds the interpreter's lock silences it, and is ended for that."""
    while not stop.wait(HEARTBEAT_S):
        child_main.send({"type": "heartbeat"})


def main(arguments: list[str]) -> int:
    """Exit code 0: the outcome is written. 1: the run failed, and the last event says why."""
    child_main.prepare()
    progress = Progress(child_main.send)
    answers: queue.Queue[JSONObject] = queue.Queue()
    stop = threading.Event()
    threading.Thread(target=_listen, args=(answers,), name="daemon", daemon=True).start()
    threading.Thread(target=_beat, args=(stop,), name="heartbeat", daemon=True).start()
    try:
        job = read_job(Path(arguments[0]))
        outcome = RunProcess(job, progress, answers).run()
        write_atomic(job.folder / OUTCOME_FILE, outcome.model_dump_json())
        progress.emit("result", verdict=outcome.verdict, sentence=outcome.sentence, change=outcome.change)
    except ReefError as error:
        progress.emit("failed", message=error.message, hint=error.hint, code=error.code)
        return 1
    except Exception as error:  # noqa: BLE001 - the top of this process
        _log.exception("the run ended by a bug")
        progress.emit(
            "failed", message=f"The run ended by a bug of ours: {type(error).__name__}: {error}", hint="See the run's log.", code="bug"
        )
        return 1
    finally:
        stop.set()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
