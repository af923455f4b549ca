"""All that a page about a release is made of, asked from the daemon."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from daemon.errors import EngineError, NotFound
from reef_cli import judgement, output
from reef_cli.client import Client, scenario_path

if TYPE_CHECKING:
    from daemon.records import JSON, JSONObject

_AROUND = 4  # releases before and after it
_MOST_EXCHANGES = 24
_ENDED = ("done", "failed", "cancelled")
HINTS_PATH = "serving.json"
"""The file whose demonstrations are taken from sessions word by word."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """One turn that was learned from."""

    session: str
    prompt: str
    reply: str


@dataclass(frozen=True, slots=True)
class Story:
    """One release as others may see it. What sessions said is in it only `with_sessions`."""

    scenario: str
    release: JSONObject
    change: JSONObject  # the comparison with what it was made on; empty for the first release
    around: tuple[JSONObject, ...]  # newest first, itself among them
    losses: tuple[tuple[int, float], ...]  # step and training loss
    with_sessions: bool
    exchanges: tuple[Exchange, ...] = ()

    @property
    def name(self) -> str:
        return output.text(self.release.get("release_id"))

    @property
    def evaluation(self) -> JSONObject:
        return output.part(self.release, "tasks")

    @property
    def files(self) -> list[JSONObject]:
        """The files that changed; without those that hold what sessions said, where that is to stay private."""
        return [one for one in output.rows(self.change, "files") if self.with_sessions or one.get("path") != HINTS_PATH]

    @property
    def left_out(self) -> bool:
        """Whether a file changed that is not shown."""
        return len(self.files) < len(output.rows(self.change, "files"))


def tell(client: Client, scenario: str, name: str, *, with_sessions: bool) -> Story:
    """Ask for everything about the release `name`.

    Raises:
        NotFound: there is no such release.
    """
    release = client.get(scenario_path(scenario, "releases", name))
    own = output.text(release.get("release_id"))
    parent = release.get("parent_release_id")
    change = client.get(scenario_path(scenario, "releases", str(parent), "diff", own), {"replies": "1"}) if parent else {}
    newest = f"r{int(own[1:]) + _AROUND + 1}" if own[1:].isdigit() else ""
    around = client.get(scenario_path(scenario, "releases"), {"limit": 2 * _AROUND + 1, "before": newest})
    return Story(
        scenario,
        release,
        change,
        tuple(output.rows(around, "releases")),
        _losses(client, scenario, release),
        with_sessions,
        _exchanges(client, scenario, release) if with_sessions else (),
    )


def _losses(client: Client, scenario: str, release: JSONObject) -> tuple[tuple[int, float], ...]:
    """The loss of each training step, as far as the run's events are still kept."""
    run = output.part(release, "run")
    if run.get("status") not in _ENDED:
        return ()
    found: list[tuple[int, float]] = []
    try:
        for event in client.events(scenario_path(scenario, "runs", output.text(run.get("id")), "events")):
            step, loss = event.get("step"), event.get("loss")
            if event.get("type") == "step" and isinstance(step, int) and isinstance(loss, int | float):
                found.append((step, float(loss)))
    except EngineError:  # the page is worth having without its curve
        return ()
    return tuple(found)


def _exchanges(client: Client, scenario: str, release: JSONObject) -> tuple[Exchange, ...]:
    receipts = release.get("records")
    found: list[Exchange] = []
    for receipt in receipts[:_MOST_EXCHANGES] if isinstance(receipts, list) else []:
        try:
            record = client.get(scenario_path(scenario, "records", str(receipt)))
        except NotFound:  # forgotten
            continue
        said = output.part(record, "payload")
        found.append(Exchange(output.text(said.get("session"), ""), _asked(said), _spoken(output.part(said, "reply"))))
    return tuple(found)


def _asked(record: JSONObject) -> str:
    users = [message for message in output.rows(record, "messages") if message.get("role") == "user"]
    return _spoken(users[-1]) if users else ""


def _spoken(message: JSONObject) -> str:
    content: JSON = message.get("content")
    if isinstance(content, list):
        return "\n".join(output.text(part.get("text"), "") for part in content if isinstance(part, dict))
    return output.text(content, "")


def facts(story: Story) -> list[tuple[str, str]]:
    """What one needs to make the release again."""
    release = story.release
    base, recipe = output.part(release, "base"), output.part(release, "recipe")
    found: list[tuple[str, JSON]] = [
        ("release", f"{story.name} of {story.scenario}"),
        ("commit", release.get("commit_id")),
        ("content", release.get("content_id")),
        ("made on", release.get("parent_release_id")),
        *((f"base {name}", base.get(name)) for name in ("model", "file", "quantisation", "sha256", "template_sha256")),
        *((f"engine {name}", value) for name, value in output.part(release, "engine").items()),
        ("recipe", recipe.get("name")),
        ("recipe path", recipe.get("path")),
        *((f"recipe {name}", value) for name, value in output.part(recipe, "settings").items()),
        ("seed", release.get("seed")),
        ("run", release.get("run_id")),
        ("records", len(records) if isinstance(records := release.get("records"), list) else None),
    ]
    return [(name, output.text(value)) for name, value in found if value not in (None, "", [], {})]


def came_from(story: Story) -> str:
    """How much it learned from, in a sentence."""
    records, sessions = story.release.get("records"), output.rows(story.release, "sessions")
    count = len(records) if isinstance(records, list) else 0
    if not count:
        return "No session: nothing recorded went into it."
    gone = int(judgement.number(story.release.get("records_gone")))
    words = f"{count} record{'s' if count > 1 else ''} of {len(sessions)} session{'' if len(sessions) == 1 else 's'}"
    return f"{words}{f'; {gone} of them no longer stored' if gone else ''}."
