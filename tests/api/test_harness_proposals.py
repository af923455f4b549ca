"""What an agent proposes waits for a person: nothing that it can send makes it serve, and nothing of it is lost or left half done."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from daemon.errors import BadRequest, Busy
from daemon.harness.agent_proposals import MOST_WAITING, Pace, read_proposal
from daemon.records import JSON, JSONObject
from daemon.versions.fsck import fsck
from daemon.versions.manifest import Operation
from tests.api.test_release_reading import publish, rules
from tests.daemon.running import Running, running

PATH = "/reef/harness/proposals"
BASE = "/reef/scenarios/default"


def body(*mutations: JSONObject, session: str = "ses_1", reason: str = "it failed twice") -> JSONObject:
    made: list[JSON] = [*mutations]
    return {"mutations": made, "reason": reason, "session": session}


def rule(text: str, section: str = "testing") -> JSONObject:
    return {"kind": "create", "entry": f"AGENTS.md#{section}", "text": text}


async def propose(daemon: Running, *mutations: JSONObject, **more: str) -> httpx.Response:
    return await daemon.client.post(PATH, json=body(*mutations, **more))


async def test_it_waits_as_a_held_candidate_that_only_the_owner_lets_serve(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        await publish(daemon, "- a rule\n")
        answer = await propose(
            daemon, rule("- Run make test."), {"kind": "create", "entry": "prompts/fix.md", "text": "Fix it.\n", "reason": "asked often"}
        )
        assert answer.status_code == 201, answer.text
        told = answer.json()
        assert told["admitted"] is True and told["reason"].startswith(
            "It waits as r3 until a person promotes it: proposed by an agent in session ses_1"
        )
        shown = (await daemon.client.get(f"{BASE}/releases/r3")).json()
        assert (shown["state"], shown["operation"], shown["who"], shown["parent_release_id"]) == ("held", "proposal", "client", "r2")
        by = "an agent in session ses_1"
        assert shown["mutations"] == [
            {"kind": "create", "entry": "AGENTS.md#testing", "reason": "it failed twice", "sessions": ["ses_1"], "author": by},
            {"kind": "create", "entry": "prompts/fix.md", "reason": "asked often", "sessions": ["ses_1"], "author": by},
        ]
        assert (await daemon.client.get("/reef/harness")).json()["files"] == {"AGENTS.md": "- a rule\n"}
        [listed] = (await daemon.client.get(PATH)).json()["proposals"]
        assert (listed["proposal_id"], listed["findings"], listed["aged"], len(listed["mutations"])) == ("r3", 0, False, 2)

        for route in ("promote", "rollback"):
            assert (await daemon.client.post(f"{BASE}/{route}", json={"release_id": "r3"})).status_code == 403
        assert (await daemon.bare.post(PATH, json=body(rule("- b")))).status_code == 401
        again = await propose(
            daemon, rule("- Run make test."), {"kind": "create", "entry": "prompts/fix.md", "text": "Fix it.\n"}, session="ses_2"
        )
        assert again.status_code == 200 and again.json() == {
            "proposal_id": "r3",
            "admitted": True,
            "reason": "The same waits already, as r3.",
        }

        promoted = await daemon.owner.post(f"{BASE}/promote", json={"release_id": "r3"})
        assert (
            promoted.status_code == 200
            and "; it was proposed by " in promoted.json()["verdict"]
            and "gate" not in promoted.json()["verdict"]
        )
        files = (await daemon.client.get("/reef/harness")).json()["files"]
        assert files["AGENTS.md"] == "- a rule\n\n## testing\n\n- Run make test.\n" and set(files) == {"AGENTS.md", "prompts/fix.md"}
        assert (await daemon.client.get(PATH)).json() == {"proposals": []}
        assert fsck(daemon.services.repository) == []


async def test_one_after_the_other_they_come_onto_what_serves_by_then(tmp_path: Path) -> None:
    """Nobody has evaluated them, so nothing is to be evaluated again."""
    async with running(tmp_path) as daemon:
        assert await edit(daemon, "## Style\n\n- short\n") == "r2"
        for mutation in (
            rule("- Run make test."),
            rule("- Small commits.", "git"),
            rule("- Look first."),
            {**rule("- long", "style"), "kind": "update"},
        ):
            assert (await propose(daemon, mutation)).status_code == 201
        assert await promote(daemon, "r3") == (200, "r7")
        assert {one["proposal_id"]: (one["aged"], one["findings"]) for one in await waiting(daemon)} == {
            "r4": (False, 0),
            "r5": (True, 0),  # another section of that name serves
            "r6": (False, 1),  # what a person wrote goes
        }
        assert await promote(daemon, "r4") == (200, "r8")
        files = (await daemon.client.get("/reef/harness")).json()["files"]
        assert files["AGENTS.md"] == "## Style\n\n- short\n\n## testing\n\n- Run make test.\n\n## git\n\n- Small commits.\n"
        status, told = await promote(daemon, "r5")
        assert status == 409 and "do not fit together: AGENTS.md:" in told and "'testing' is used on line" in told
        status, told = await promote(daemon, "r6")
        assert status == 409 and "The guard found 1 thing" in told
        assert await edit(daemon, files["AGENTS.md"].replace("- short", "- very short")) == "r9"
        status, told = await promote(daemon, "r6")
        assert status == 409 and "r6 was proposed for r2; r9 serves now, and both changed the same:\n  AGENTS.md, line 3" in told
        assert [one["proposal_id"] for one in await waiting(daemon) if one["aged"]] == ["r6", "r5"]
        assert fsck(daemon.services.repository) == []


async def edit(daemon: Running, text: str) -> str:
    body = {"files": {"AGENTS.md": text}, "base_release_id": (await daemon.client.get("/reef/harness")).json()["release_id"]}
    return str((await daemon.owner.post(f"{BASE}/harness", json=body)).json()["release"]["release_id"])


async def promote(daemon: Running, name: str) -> tuple[int, str]:
    """What serves then, or why it does not."""
    answer = await daemon.owner.post(f"{BASE}/promote", json={"release_id": name})
    told = answer.json()
    return answer.status_code, str(told["release_id"] if answer.status_code == 200 else told["error"]["message"])


async def waiting(daemon: Running) -> list[JSONObject]:
    return list((await daemon.client.get(PATH)).json()["proposals"])


REFUSED: tuple[tuple[JSONObject, str], ...] = (
    ({"kind": "create", "entry": "AGENTS.md", "text": "- b\n"}, "AGENTS.md exists already."),
    ({"kind": "remove", "entry": "skills/none/SKILL.md"}, "is not there to remove"),
    ({"kind": "update", "entry": "AGENTS.md", "text": "## A\n\n## A\n"}, "AGENTS.md:3: the section id 'a' is used on line 1"),
    ({"kind": "create", "entry": "skills/x/SKILL.md", "text": "x"}, "skills/x/SKILL.md:1: `name` must be 'x'"),
    ({"kind": "create", "entry": "../x.md", "text": "x"}, "has an empty, `.` or `..` part"),
    ({"kind": "create", "entry": "/etc/passwd", "text": "x"}, "is absolute"),
    ({"kind": "create", "entry": "prompts/a.md", "text": "\ud800"}, "prompts/a.md:1: half a character is not valid UTF-8"),
    ({"kind": "update", "entry": "AGENTS.md", "text": "- a rule\n"}, "r2 says that already"),
    ({"kind": "create", "entry": "prompts/a.md", "text": "Use sk-proj-" + "aB3dE5fG7h" * 6}, "looks like a secret"),
)


async def test_what_cannot_be_is_refused_with_the_reason_and_nothing_waits(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        await publish(daemon, "- a rule\n")
        for number, (mutation, reason) in enumerate(REFUSED):
            sent = json.dumps(body(mutation, session=f"ses_{number}")).encode()  # half a character is an escape then
            answer = await daemon.client.post(PATH, content=sent, headers={"content-type": "application/json"})
            assert answer.status_code == 200, answer.text
            told = answer.json()
            assert told["admitted"] is False and told["proposal_id"] is None and reason in told["reason"], told
        assert daemon.services.repository.held("default") == []


@pytest.mark.parametrize(
    ("spoil", "param"),
    [
        (lambda good: good.pop("reason"), "reason"),
        (lambda good: good.update(reason="x" * 501), "reason"),
        (lambda good: good.update(session="../x y"), "session"),
        (lambda good: good.update(mutations=[]), "mutations"),
        (lambda good: good.update(mutations=[rule("- a", f"s{number}") for number in range(21)]), "mutations"),
        (lambda good: good.update(mutations=[{**rule("- a"), "author": "owner"}]), "mutations[0]"),
        (lambda good: good.update(mutations=[rule("- a"), {"kind": "move", "entry": "x", "text": ""}]), "mutations[1]"),
        (lambda good: good.update(mutations=[{"kind": "remove", "entry": "AGENTS.md", "text": "x"}]), "mutations[0]"),
        (lambda good: good.update(mutations=[{"kind": "create", "entry": "", "text": "x"}]), "mutations[0]"),
        (lambda good: good.update(mutations=[rule("x" * 65_537)]), "mutations"),
        (lambda good: good.update(mutations=["x"]), "mutations[0]"),
    ],
)
def test_what_is_no_proposal_names_its_field(spoil: Callable[[JSONObject], object], param: str) -> None:
    good = body(rule("- a"))
    assert read_proposal(dict(good)).author == "an agent in session ses_1"
    spoil(good)
    with pytest.raises(BadRequest, match="'" + param.replace("[", r"\[")):
        read_proposal(good)


async def test_what_a_person_has_dismissed_does_not_come_back(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        told = (await propose(daemon, rule("- Run make test."))).json()
        tree = daemon.services.repository.release("default", told["proposal_id"]).tree
        daemon.services.repository.drop_held("default", told["proposal_id"])
        await daemon.services.publisher.reject(rules(daemon, "", harness=tree, operation=Operation.PROPOSAL))
        again = (await propose(daemon, rule("- Run make test."), session="ses_2")).json()
        assert again == {"proposal_id": None, "admitted": False, "reason": "A person has dismissed the same, as r3."}


async def test_the_guard_reads_it_and_a_program_asks_for_its_own_yes(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        told = (await propose(daemon, {"kind": "create", "entry": "extensions/own/index.ts", "text": "export default 1"})).json()
        assert told["admitted"] is True and "quarantined for a person: extensions/own/index.ts:1: executable" in told["reason"]
        [listed] = (await daemon.client.get(PATH)).json()["proposals"]
        assert listed["findings"] == 1
        asked = await daemon.owner.post(f"{BASE}/promote", json={"release_id": told["proposal_id"]})
        assert asked.status_code == 409 and asked.json()["error"]["code"] == "unconfirmed"


async def test_only_so_many_come_and_only_so_many_wait(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        for number in range(MOST_WAITING):
            assert (await propose(daemon, rule(f"- {number}"), session=f"ses_{number}")).status_code == 201
        refused = await propose(daemon, rule("- one more"), session="ses_x")
        assert refused.status_code == 200 and "20 proposals wait for a person already" in refused.json()["reason"]
        waits = (await propose(daemon, rule("- 3"), session="ses_y")).json()
        assert waits["admitted"] is True and "waits already" in waits["reason"]
        for _ in range(6):
            last = await propose(daemon, rule("- same"), session="ses_z")
        slow = await propose(daemon, rule("- same"), session="ses_z")
        assert last.status_code == 200 and slow.status_code == 429 and 3000 < int(slow.headers["retry-after"]) <= 3600
        large = await daemon.client.post(PATH, json=body(rule("x" * 600_000)))
        assert large.status_code == 413


def test_a_session_that_takes_new_names_is_bounded_with_its_scenario_and_an_hour_later_it_goes_on() -> None:
    now = [0.0]
    pace = Pace(lambda: now[0])
    for number in range(30):
        now[0] += 1
        pace.admit("default", f"ses_{number}")
    with pytest.raises(Busy, match="30 proposals from the scenario default"):
        pace.admit("default", "ses_new")
    pace.admit("pi", "ses_new")
    now[0] = 3601.0
    pace.admit("default", "ses_new")
    with pytest.raises(Busy):
        pace.admit("default", "ses_other")
