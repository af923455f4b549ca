"""A process that publishes against others: each time onto the head that it sees, and prints what came of it.

python -m tests.versions.publish_in_race REPOSITORY NAME COUNT
"""

from __future__ import annotations

import sys
from pathlib import Path

from daemon.errors import Conflict
from daemon.versions.repository import Repository
from tests.versions.parts import draft, lora_folder, tree


def main(path: Path, name: str, count: int) -> None:
    repository = Repository(path)
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(count):
        head = repository.head("default")
        text = f"{name}-{number}"
        prepared = repository.prepare(draft(tree(rules=f"- {text}"), lora_folder(path.parent / text, text), who=name))
        try:
            release = repository.advance(prepared, head.id if head else None)
            print("won", release.id, release.commit_id, flush=True)
        except Conflict as refused:
            repository.discard(prepared)
            print("lost", head.id if head else None, refused.message, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
