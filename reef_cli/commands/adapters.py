"""`reef adapters`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from daemon.errors import ReefError
from reef_cli import output
from reef_cli.locations import home
from reef_cli.options import AsJSON

if TYPE_CHECKING:
    from daemon.paths import Home
    from daemon.records import JSONObject


def adapters(as_json: AsJSON = False) -> None:
    """With what is installed, which versions work, and what an agent cannot do.

    \b
    Examples:
      reef adapters
      reef adapters --json
    """
    from daemon.harness.adapter import adapter_names

    where = home()
    found = [_facts(where, name) for name in adapter_names()]
    if as_json:
        output.print_json({"adapters": [*found]})
        return
    for facts in found:
        print(f"{output.paint(output.text(facts['name']), output.BOLD)}  {facts['title']}")
        if facts["error"]:
            print(f"  {facts['error']}")
            continue
        release = f", harness of {facts['release_id']}" if facts["release_id"] else ""
        print(
            f"  Installed: {facts['installed']}{release}"
            if facts["installed"]
            else f"  Not installed. To have it: reef install {facts['name']}"
        )
        print(f"  Works with {facts['versions']}.")
        limits = facts["limits"]
        for limit in limits if isinstance(limits, list) else []:
            print(f"  - {limit}")


def _facts(where: Home, name: str) -> JSONObject:
    """One adapter; it may be anybody's, so that what it does wrong is said beside its name."""
    from daemon.harness.adapter import find_adapter
    from daemon.harness.installed import read_manifest

    facts: JSONObject = {"name": name, "title": "", "versions": "", "limits": [], "installed": "", "release_id": "", "error": ""}
    try:
        adapter = find_adapter(name)
        facts |= {"title": adapter.title, "versions": adapter.versions, "limits": [*adapter.limits]}
        manifest = read_manifest(where.agents / name)
    except ReefError as error:
        return {**facts, "error": str(error)}
    except Exception as error:  # noqa: BLE001 -- an adapter may be anybody's
        return {**facts, "error": f"This adapter fails: {type(error).__name__}: {error}. Tell its author."}
    return {**facts, "installed": manifest.version, "release_id": manifest.release_id} if manifest is not None else facts
