"""What a person and a program get to read."""

from __future__ import annotations

import json
import sys

from daemon.conformance.agents import Fit
from daemon.conformance.outcome import Outcome, Verdict
from daemon.conformance.probe import Facts
from daemon.conformance.suite import Check, Result, Watcher
from daemon.conformance.target import Target

_SIGNS = {
    Verdict.PASS: "✓ pass   ",
    Verdict.FAIL: "✗ FAIL   ",
    Verdict.WEAK: "~ weak   ",
    Verdict.ABSENT: "- absent ",
    Verdict.SKIPPED: "- skipped",
}
_FITS = {Fit.WORKS: "✓ works  ", Fit.LIMITED: "~ limited", Fit.NO: "✗ no     "}
_WIDTH = 14


class Printer(Watcher):
    """Prints each line as soon as it is known; on a terminal, what is being tried too."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._group = ""
        self._moving = sys.stderr.isatty() and sys.stdout.isatty()

    def begins(self, facts: Facts) -> None:
        window = f"a window of {facts.window_tokens:,} tokens" if facts.window_tokens else "a window that it does not tell"
        print(f"{self._target.url}, model {facts.model}, {window}.")
        print(
            "About a minute with a small model. Nothing of it is recorded." if self._target.is_ours else "About 50 short requests.",
            flush=True,
        )

    def trying(self, check: Check) -> None:
        if self._moving:
            sys.stderr.write(f"\r… {check.name:<20}")
            sys.stderr.flush()

    def ended(self, outcome: Outcome) -> None:
        if self._moving:
            sys.stderr.write(f"\r{'':<22}\r")
            sys.stderr.flush()
        if outcome.group != self._group:
            self._group = outcome.group
            print(f"\n{outcome.group}")
        print(f"  {_SIGNS[outcome.verdict]}  {outcome.check:<{_WIDTH}} {outcome.sentence}", flush=True)


def print_verdicts(result: Result) -> None:
    """Which agents will work, and the sum of it."""
    print("\nAgents")
    for found in result.agents:
        print(f"  {_FITS[found.fit]}  {found.agent:<{_WIDTH}} {found.reasons[0]}")
        for reason in found.reasons[1:]:
            print(f"{'':{_WIDTH + 14}}{reason}")
    counts = {verdict: sum(outcome.verdict is verdict for outcome in result.outcomes) for verdict in Verdict}
    print(f"\n{counts[Verdict.PASS]} of {len(result.outcomes)} checks passed, {counts[Verdict.FAIL]} failed.")
    if counts[Verdict.WEAK]:
        print(f"{counts[Verdict.WEAK]} are the model's doing: the server kept to the protocol, a larger model would manage.")
    if counts[Verdict.ABSENT] or counts[Verdict.SKIPPED]:
        print(f"{counts[Verdict.ABSENT]} are not offered by this server, {counts[Verdict.SKIPPED]} could not be tried.")
    sys.stdout.flush()


def as_json(target: Target, result: Result) -> str:
    """One object: `ok`, where and what was tried, `checks`, `agents`."""
    checks = [
        {"check": one.check, "group": one.group, "verdict": one.verdict.value, "sentence": one.sentence, "seconds": round(one.seconds, 3)}
        for one in result.outcomes
    ]
    agents = [{"agent": one.agent, "fit": one.fit.value, "reasons": list(one.reasons)} for one in result.agents]
    head = {
        "ok": not result.failed,
        "url": target.url,
        "model": result.model,
        "window_tokens": result.facts.window_tokens or None,
        "read_tokens_per_s": round(result.facts.read_tokens_per_s, 1) or None,
        "wires": sorted(result.facts.wires),
    }
    return json.dumps({**head, "checks": checks, "agents": agents}, indent=2, ensure_ascii=False)
