"""GET /reef/harness/install: a shell script that installs an agent, to be piped into a shell.

It starts `reef install` of the very installation that the daemon runs from, so that there is one installer. All of it stands in one
function that the last line calls: a script that arrives in part does nothing.
"""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daemon.errors import BadRequest, NotFound
from daemon.harness.adapter import adapter_names
from daemon.services import Services
from daemon.versions.names import named

_SCRIPT = """\
#!/bin/sh
# Installs {name} on the model that Reef serves, into Reef's home on this machine. Needs no root; running it again is safe.
# What it writes is verified by hash. To take it away: reef uninstall {name}
# shellcheck disable=SC2016,SC2089,SC2090  # what stands in quotes is meant as it stands
set -eu

main() {{
  python={python}
  if [ ! -x "$python" ]; then
    echo "Reef is not installed on this machine as $python; run this where the daemon runs." >&2
    exit 1
  fi
  REEF_HOME={home}
  export REEF_HOME
  "$python" -P -m reef_cli.main install {arguments} </dev/null
}}

main
"""


class HarnessInstallRoutes:
    def __init__(self, services: Services) -> None:
        self._services = services

    def routes(self) -> list[Route]:
        return [Route("/reef/harness/install", self.install, methods=["GET"])]

    async def install(self, request: Request) -> Response:
        """For `adapter`, with the harness that serves in the agent's scenario, or with that of `release_id`."""
        name, release_id = request.query_params.get("adapter", ""), request.query_params.get("release_id", "")
        if not name:
            raise BadRequest("The query names no adapter.", "Ask for ?adapter=pi.", param="adapter")
        known = await asyncio.to_thread(adapter_names)
        if name not in known:
            raise NotFound(f"There is no adapter named {name!r}.", f"There are: {', '.join(known) or 'none'}.")
        arguments = [name]
        if release_id:
            release = await asyncio.to_thread(named, self._services.repository, name, release_id)
            arguments += ["--release", release.id]
        script = install_script(name, sys.executable, self._services.home.root, arguments)
        return Response(script, media_type="text/x-shellscript; charset=utf-8", headers={"cache-control": "no-store"})


def install_script(name: str, python: str, home: Path, arguments: Sequence[str]) -> str:
    """POSIX sh; whatever the folders are called."""
    return _SCRIPT.format(name=name, python=shlex.quote(python), home=shlex.quote(str(home)), arguments=shlex.join(arguments))
