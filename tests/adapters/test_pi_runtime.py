"""Installing pi with the npm of whoever asks for it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from adapters.pi.runtime import PI_VERSION, Runtime

NPM = f"""#!/bin/sh
case $(command -v node) in "$3"/*) echo "Cannot find module 'semver'" >&2; exit 1 ;; esac
mkdir -p "$3/node_modules/node/bin" "$3/node_modules/.bin"
printf '#!/bin/sh\\n' >"$3/node_modules/node/bin/node"
printf '#!/bin/sh\\necho {PI_VERSION}\\n' >"$3/node_modules/.bin/pi"
chmod +x "$3/node_modules/node/bin/node" "$3/node_modules/.bin/pi"
"""


def test_npm_runs_on_the_node_that_it_came_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Debian's npm finds its own modules with Debian's Node alone, so Reef's own must not take that one's place."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, text in (("npm", NPM), ("node", "#!/bin/sh\n")):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    runtime = Runtime(tmp_path / "pi")
    said: list[str] = []
    runtime.install(said.append)
    assert runtime.version() == PI_VERSION and len(said) == 2
