"""How one scenario learns, changed while the daemon runs: in the home's settings file, where it is seen and holds after a restart."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from daemon.config import Config, merge_section
from daemon.config_edit import write_setting
from daemon.errors import Conflict
from daemon.records import JSONObject
from daemon.services import Services


async def set_mode(services: Services, scenario: str, mode: str, who: str) -> None:
    """`auto`, `manual` or `off` for this scenario from now on; the operation log says who asked.

    Raises:
        Conflict: another source of settings says it, and goes before the home's file.
        ConfigError, StorageError: the file cannot be changed, and is as it was.
    """
    config, loaded = services.config, services.loaded
    before = config.for_scenario(scenario).learn.mode
    if before == mode:
        return
    keys = ("scenarios", scenario, "learn", "mode")
    place = loaded.where.get(keys) or loaded.where.get(keys[:3]) or ""
    if place and not place.startswith(f"{services.home.config}:"):
        raise Conflict(f"How {scenario} learns is set in {place}, which goes before {services.home.config}.", "Change it there.")
    await asyncio.to_thread(write_setting, services.home.config, keys, mode)
    own = config.scenarios.get(scenario, {})
    changed = {**own, "learn": merge_section("learn", own.get("learn", {}), {"mode": mode})}
    new: Config = config.model_copy(update={"scenarios": {**config.scenarios, scenario: changed}})
    services.loaded = replace(loaded, config=new)  # the file is watched too, but whoever asked need not wait for that
    services.runner.configure(new, services.base_url, loaded.search_paths)
    services.reconfigured.set()
    head = services.serving.head(scenario)
    stands = head.release_id if head is not None else None
    detail: JSONObject = {"setting": "learn.mode", "before": before, "after": mode}
    await asyncio.wrap_future(services.log.append(scenario, "settings", stands, stands, who, detail))
