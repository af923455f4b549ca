"""Pins over HTTP: they stay, they change nothing that serves, and the log says who set them."""

from __future__ import annotations

from pathlib import Path

from daemon.versions.fsck import fsck
from tests.api.test_releases import BASE, publish_hints
from tests.daemon.running import running


async def test_a_pin_is_set_once_listed_and_taken_off(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        second = await publish_hints(daemon, "Be brief.")
        assert (await daemon.client.post(f"{BASE}/pins", json={"release_id": "r1"})).status_code == 403
        told = (await daemon.owner.post(f"{BASE}/pins", json={"release_id": "r1"})).json()
        assert told == {"release_id": "r1", "pinned": True, "changed": True, "pins": ["r1"]}
        again = (await daemon.owner.post(f"{BASE}/pins", json={"release_id": "r1"})).json()
        assert again["changed"] is False and again["pins"] == ["r1"]
        await daemon.owner.post(f"{BASE}/pins", json={"release_id": second})
        assert (await daemon.client.get(f"{BASE}/pins")).json() == {"pins": [second, "r1"]}
        assert fsck(daemon.services.repository) == []
        assert (await daemon.chat("x")).headers["x-reef-release-id"] == second
        off = (await daemon.owner.delete(f"{BASE}/pins/r1")).json()
        assert (off["pinned"], off["changed"], off["pins"]) == (False, True, [second])
        assert (await daemon.owner.delete(f"{BASE}/pins/r1")).json()["changed"] is False
        assert (await daemon.owner.post(f"{BASE}/pins", json={"release_id": "r77"})).status_code == 404
        log = (await daemon.client.get(f"{BASE}/commits", params={"limit": 3})).json()["commits"]
        assert [(row["operation"], row["before"], row["after"], row["who"]) for row in log] == [
            ("unpin", second, second, "owner"),
            ("pin", second, second, "owner"),
            ("pin", second, second, "owner"),
        ]
        assert log[0]["detail"] == {"release_id": "r1"}


async def test_what_a_pin_could_not_keep_is_refused(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        held = await publish_hints(daemon, "Be kind.", hold=True)
        refused = await daemon.owner.post(f"{BASE}/pins", json={"release_id": held})
        assert refused.status_code == 409 and "needs no pin" in refused.json()["error"]["message"]
        assert (await daemon.client.get(f"{BASE}/pins")).json() == {"pins": []}
