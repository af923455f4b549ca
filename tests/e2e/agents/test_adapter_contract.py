"""What every adapter must do with the real agent from npm; `tests/adapters/contract.py` asks the rest without it.

The tests of one agent follow one another as its user's days do, from the installation to the removal.
"""

from __future__ import annotations

import json
import stat
import subprocess
from collections.abc import Iterator

import pytest

from daemon.files import sha256_file
from daemon.harness.adapter import adapter_names
from daemon.harness.edits import find_edits
from daemon.harness.installed import read_manifest
from reef_cli.transcripts import find_reader
from tests.e2e.agents.installed import MARKS, Agents
from tests.e2e.agents.real import OWN_FILES, OWN_RULE, RealAgent, read_call, real_agent, slow
from tests.e2e.agents.scripted import Body, Refused, Reply

pytestmark = MARKS
QUESTION, ANSWER = "Which colour do the notes name?", "The notes say teal."
RULE, SKILL = "Never guess a colour that the notes could name.", "When a colour must be matched to a paint."
FIRST = {
    "AGENTS.md": f"# Rules\n\n- {RULE}\n",
    "skills/paint/SKILL.md": f"---\nname: paint\ndescription: {SKILL}\n---\nLook at the label.\n",
    "commands/ship.md": "---\ndescription: Ship it\n---\nShip $ARGUMENTS.\n",
    "serving.json": '{"system_prefix": "Be brief."}',
}
SECOND = {
    **FIRST,
    "prompts/again.md": "---\ndescription: Once more\n---\nDo it again.\n",
    "AGENTS.md": f"# Rules\n\n- {RULE}\n- Say thanks.\n",
}


@pytest.fixture(scope="module", params=adapter_names())
def real(request: pytest.FixtureRequest, agents: Agents, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealAgent]:
    with real_agent(request.param, agents, tmp_path_factory.mktemp(request.param)) as agent:
        agent.publish(FIRST)
        agent.reef("install", agent.name)
        yield agent


def answering(agent: RealAgent) -> None:
    """The model reads the notes with the agent's own tool, then says what they say. Titles and the like are asked without tools."""

    def script(body: Body) -> Reply:
        if not body.get("tools"):
            return Reply("A short title")
        if any(message["role"] == "tool" for message in body["messages"]):
            return Reply(ANSWER)
        return read_call(body, agent.work / "notes.txt") or Reply(ANSWER)

    agent.model.play(script)


def test_the_installation_is_what_it_says_and_starts(real: RealAgent) -> None:
    version = real.adapter.package.version
    manifest = read_manifest(real.place)
    assert manifest is not None and manifest.version == version and manifest.release_id == "r2"
    assert all(sha256_file(real.place / path) == digest for path, digest in manifest.files.items())
    assert real.launcher.stat().st_mode & stat.S_IXUSR
    done = subprocess.run([str(real.launcher), "--version"], env=real.env, capture_output=True, text=True, timeout=60, check=True)
    assert version in done.stdout, done.stdout + done.stderr
    plain = (path for path in real.place.rglob("*") if path.is_file() and not path.is_symlink() and "runtime" not in path.parts)
    written = "".join(path.read_text(errors="replace") for path in plain)
    for token in ("client", "owner"):
        assert real.daemon.token(token) not in written
    assert str(real.daemon.home.owner_token) not in written, "an agent must not even know where the owner's token lies"
    told = next(one for one in json.loads(real.reef("adapters", "--json"))["adapters"] if one["name"] == real.name)
    assert told["installed"] == version and told["release_id"] == "r2" and not told["error"]


def test_a_second_installation_changes_nothing(real: RealAgent) -> None:
    before = {path: path.read_bytes() for path in (real.place / "agent").rglob("*") if path.is_file()}
    real.reef("install", real.name)
    assert {path: path.read_bytes() for path in (real.place / "agent").rglob("*") if path.is_file()} == before


def test_a_task_with_a_tool_is_one_session_under_the_agents_own_scenario(real: RealAgent) -> None:
    answering(real)
    outcome = real.task(QUESTION)
    assert (outcome.exit_code, outcome.text.strip(), outcome.timed_out) == (0, ANSWER, False), outcome
    shown = real.shown()
    assert "The colour is teal." in shown, "the tool's result never came back"
    assert RULE in shown and SKILL in shown, "the release's rules and skills are in front of the model"
    assert OWN_RULE not in shown, "the user's own rules are not"
    assert "Be brief." in shown, "serving hints are the gateway's"
    records = real.records()
    assert records, "nothing was recorded in the scenario of its name"
    for record in records:
        tags = record["tags"]
        assert (tags["client"], tags["release"]) == (real.name, "r2"), tags
        assert record["release_id"] == "r2"
    assert any(record["tags"].get("cwd", "").startswith("/") for record in records), "requests say where the agent works"
    [session] = [one for one in real.daemon.get(f"/reef/scenarios/{real.name}/sessions")["sessions"] if one["turns"]]
    assert session["turns"] == 2


def test_a_task_that_the_model_refuses_fails_and_says_why(real: RealAgent) -> None:
    def refuse(body: Body) -> Reply:
        raise Refused(400, {"message": "The model has no time for this.", "code": "invalid_request"})

    real.model.play(refuse)
    outcome = real.task(QUESTION)
    assert outcome.exit_code != 0 and not outcome.timed_out, outcome
    assert "no time for this" in f"{outcome.text}{outcome.log}{outcome.details}", outcome


def test_a_task_that_hangs_ends_with_everything_that_it_started(real: RealAgent) -> None:
    over: list[object] = []

    def hang(body: Body) -> Reply:
        slow(60, over)
        return Reply("Too late.")

    real.model.play(hang)
    outcome = real.task(QUESTION, timeout_s=4)
    over.append(True)
    assert outcome.timed_out and outcome.exit_code != 0 and "Too late." not in outcome.text
    assert real.processes() == []


def test_what_the_agent_writes_for_itself_is_no_change_by_hand(real: RealAgent) -> None:
    assert find_edits(real.adapter, real.context).changed == []
    assert "changed by hand" not in real.reef("status")
    real.reef("update", real.name)
    assert real.daemon.head(real.name) == "r2"


def test_what_a_person_changes_comes_along_with_the_next_release(real: RealAgent) -> None:
    files = real.adapter.render(real.context, lambda path: None).files
    rules = real.place / "agent" / next(path for path, text in files.items() if RULE in text)
    skill = real.place / "agent" / next(path for path in files if path.endswith("paint/SKILL.md"))
    rules.write_text(rules.read_text().replace("# Rules\n", "# Rules\n\n- My own rule of today.\n", 1))
    mine = skill.parent.with_name("mine") / "SKILL.md"
    mine.parent.mkdir()
    mine.write_text(skill.read_text().replace(SKILL, "When it is about me.").replace("paint", "mine"))
    told = real.reef("status")
    assert "AGENTS.md (changed)" in told and "skills/mine/SKILL.md (added)" in told and f"reef update {real.name}" in told
    assert real.publish(SECOND) == "r3"
    real.reef("update", real.name)
    answering(real)
    outcome = real.task(QUESTION)
    assert outcome.text.strip() == ANSWER, outcome
    for text in (RULE, "My own rule of today.", "Say thanks.", "When it is about me."):
        assert text in real.shown(), text
    assert real.records()[-1]["tags"]["release"] == real.daemon.head(real.name) == "r4"


def test_a_conflict_names_the_file_and_changes_nothing_until_it_is_discarded(real: RealAgent) -> None:
    files = real.adapter.render(real.context, lambda path: None).files
    rules = real.place / "agent" / next(path for path, text in files.items() if "Say thanks." in text)
    by_hand = rules.read_text().replace("Say thanks.", "Say nothing at all.")
    rules.write_text(by_hand)
    now = dict(real.context.tree.files)
    serves = real.publish({**now, "AGENTS.md": now["AGENTS.md"].replace("Say thanks.", "Say thanks twice.")})
    refused = real.reef("update", real.name, fails=True)
    assert "AGENTS.md" in refused and "Nothing was changed" in refused, refused
    assert rules.read_text() == by_hand and real.daemon.head(real.name) == serves
    real.reef("update", real.name, "--discard")
    assert "Say thanks twice." in rules.read_text() and real.daemon.head(real.name) == serves


def test_its_own_transcripts_are_joined_to_what_was_recorded(real: RealAgent) -> None:
    reader = find_reader(real.name)
    if reader is None:
        pytest.skip("nobody reads what this agent keeps")
    told = json.loads(real.reef("import", real.name, "--json"))
    assert (told["new"], told["skipped"]) == (0, 0) and told["present"] >= 4, told


def test_an_uninstall_leaves_the_users_own_as_it_was(real: RealAgent) -> None:
    real.reef("uninstall", real.name)
    left = [path.relative_to(real.place / "agent").as_posix() for path in real.place.rglob("*") if path.is_file()]
    strange = [path for path in left if not any(path == kept or path.startswith(kept) for kept in real.adapter.keeps)]
    assert not strange, "beside conversations"
    real.reef("uninstall", real.name, "--everything")
    assert not real.place.exists()
    assert real.processes() == []
    assert real.own_files() == {path: text.encode() for path, text in OWN_FILES.items()}
