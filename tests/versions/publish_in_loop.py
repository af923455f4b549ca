"""A process to be killed: publishes releases one after another and prints each once it is durable.

python -m tests.versions.publish_in_loop REPOSITORY FOLDER COUNT
"""

from __future__ import annotations

import sys
from pathlib import Path

from daemon.failpoints import failpoint
from daemon.versions.repository import Repository
from tests.versions.parts import draft, lora_folder, tree


def main(path: Path, folder: Path, count: int) -> None:
    repository = Repository(path)
    for number in range(count):
        head = repository.head("default")
        text = f"{head.id if head else ''}-{number}"
        prepared = repository.prepare(draft(tree(rules=f"- {text}"), lora_folder(folder / text, text), records=(f"rec_{text}",)))
        failpoint("publish.smoke-loaded")
        release = repository.advance(prepared, head.id if head else None)
        print(release.id, release.commit_id, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
