"""A write-ahead log that a power cut left short, or with other bytes in it: what is left of it is a whole beginning."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

from daemon.experience.check import check
from daemon.experience.reader import Reader
from daemon.experience.store import Store
from tests.experience.make import assistant, inference, user


def test_whatever_is_left_of_the_log_holds_the_first_records_and_no_torn_one(tmp_path: Path) -> None:
    path = tmp_path / "experience.db"
    store = Store.open(path)
    given = []
    messages = [user("first question")]
    for number in range(40):
        record = inference(messages, f"answer {number} " + "word " * (number * 7), session=f"s{number % 3}")
        store.append(record).result(5)
        given.append(record)
        store.execute(lambda _: None).result(5)  # each in a commit of its own
        messages = [*messages[-4:], assistant(f"answer {number}"), user(f"question {number}")]
    kept = tmp_path / "kept"
    kept.mkdir()
    for name in ("experience.db", "experience.db-wal"):
        shutil.copy(tmp_path / name, kept / name)  # as after a kill: nothing was closed
    store.close()
    chance = random.Random(7)
    size = (kept / "experience.db-wal").stat().st_size
    assert size > 100_000, "the records lie in the log"
    seen = set()
    for number in range(14):
        folder = tmp_path / f"cut{number}"
        shutil.copytree(kept, folder)
        log = folder / "experience.db-wal"
        data = bytearray(log.read_bytes())
        place = chance.randrange(60_000, size)
        if number % 2:
            data[place : place + 40] = b"\xff" * 40  # a sector that was never written
        else:
            del data[place:]
        log.write_bytes(data)
        opened = Store.open(folder / "experience.db")
        again = inference([user("after the cut")], "stored")
        opened.append(again).result(5)
        reader = Reader(folder / "experience.db")
        found = [item.id for item in reader.items("default", limit=1000, kind="inference")]
        reader.close()
        opened.close()
        assert found == [record.id for record in given[: len(found) - 1]] + [again.id]
        assert check(folder / "experience.db") == []
        seen.add(len(found))
    assert len(seen) > 5, "cuts at different places leave differently much"
