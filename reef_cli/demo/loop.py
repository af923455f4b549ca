"""Reef's own side of the demo: reports, runs, releases, over the daemon's HTTP API with the owner's token."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.abc import Traversable
from importlib.resources import files

from daemon.errors import EngineError
from daemon.records import JSONObject
from reef_cli.client import Client, scenario_path
from reef_cli.demo.narrator import Narrator
from reef_cli.demo.server import DemoServer
from reef_cli.output import part, rows, text

SCENARIO = "default"


@dataclass(frozen=True, slots=True)
class RunResult:
    """How one run of a recipe ended. The probe is the mean loss (nats a token) of a fixed set of general text."""

    verdict: str  # promoted, rejected, held; failed where it came to no decision
    sentence: str
    release: str  # the release that it made; empty if none
    probe_before: float | None  # None: not measured, because no weights changed
    probe_after: float | None

    @property
    def promoted(self) -> bool:
        return self.verdict == "promoted"


class Loop:
    def __init__(self, server: DemoServer) -> None:
        self._client = Client(server.home)

    def correct(self, receipt: str, reply: str) -> None:
        """Report the reply as the user would have had it."""
        self._client.post("/reef/report", {"references": [receipt], "feedback": {"correction": reply}})

    def completion_tokens(self, receipt: str) -> list[int]:
        """The token ids of a recorded reply."""
        record = self._client.get(scenario_path(SCENARIO, "records", receipt))
        tokens = part(part(record, "payload") or record, "tokens").get("completion")
        if not isinstance(tokens, list):
            raise EngineError(f"The record {receipt} holds no token ids.", "See what the daemon says: reef logs")
        return [token for token in tokens if isinstance(token, int)]

    def head(self) -> str:
        return next((text(release.get("release_id")) for release in self.releases() if release.get("current")), "")

    def releases(self) -> list[JSONObject]:
        """Newest first."""
        return rows(self._client.get(scenario_path(SCENARIO, "releases")), "releases")

    def rollback(self, release: str, expected_head: str) -> str:
        """Serve an earlier release's content again; the new release's id."""
        answer = self._client.post(scenario_path(SCENARIO, "rollback"), {"release_id": release, "expected_head": expected_head})
        return text(answer.get("release_id"))

    def general_loss(self, narrator: Narrator) -> float:
        """Mean loss (nats a token) of the general text that ships with Reef, on what serves now: the gate's own probe."""
        texts = [entry.read_text(encoding="utf-8") for entry in _probe_texts()]
        total, count = 0.0, 0
        with narrator.bar("general probe", total=len(texts)) as bar:
            for content in texts:
                answer = self._client.post(scenario_path(SCENARIO, "evaluation", "head", "v1", "score"), {"text": content})
                logprobs = answer.get("logprobs")
                values = [value for value in logprobs if isinstance(value, int | float)] if isinstance(logprobs, list) else []
                total -= sum(values)
                count += len(values)
                bar.advance()
        return total / max(1, count)

    def evolve(self, recipe: str, narrator: Narrator) -> RunResult:
        """Run a recipe to its end, telling its events as they come."""
        started = self._client.post(scenario_path(SCENARIO, "runs"), {"recipe": recipe})
        run_id = text(started.get("run_id"))
        probe: JSONObject = {}
        with narrator.bar(f"a run of {recipe}") as bar:
            for event in self._client.events(scenario_path(SCENARIO, "runs", run_id, "events")):
                match event.get("type"):
                    case "phase":
                        bar.update(0, None, text(event.get("phase")))
                        narrator.say(f"{text(event.get('phase'))}: {text(event.get('detail'), '')}".rstrip(": "))
                    case "step":
                        bar.update(_number(event, "step"), _number(event, "steps"), f"training, loss {_number(event, 'loss'):.2f}")
                    case "task":
                        bar.update(_number(event, "done"), _number(event, "total"), f"{text(event.get('split'), '')} tasks, both sides")
                    case "note":
                        narrator.say(text(event.get("text")))
                    case "probe":
                        probe = event
        answer = self._client.get(scenario_path(SCENARIO, "runs", run_id))
        run = part(answer, "run") or answer
        return RunResult(
            verdict=text(run.get("verdict"), text(run.get("status"), "failed")),
            sentence=text(run.get("sentence"), text(run.get("error"), "")),
            release=text(run.get("release_id"), ""),
            probe_before=_number(probe, "before") if probe else None,
            probe_after=_number(probe, "after") if probe else None,
        )


def _probe_texts() -> list[Traversable]:
    folder = files("daemon.evolution").joinpath("probe")
    return sorted((entry for entry in folder.iterdir() if entry.name.endswith(".txt")), key=lambda entry: entry.name)


def _number(event: JSONObject, name: str) -> float:
    value = event.get(name)
    return float(value) if isinstance(value, int | float) else 0.0
