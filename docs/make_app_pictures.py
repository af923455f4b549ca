"""Takes the pictures of the app in docs/pictures, of a home whose daemon runs, such as one that `reef demo --keep` left:

REEF_HOME=HOME .venv/bin/reef up
REEF_HOME=HOME TEXTUAL_COLOR_SYSTEM=truecolor .venv/bin/python docs/make_app_pictures.py [SCENARIO]
"""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

from textual.pilot import Pilot

from reef_cli.tui.app import ReefApp
from reef_cli.tui.themes import DARK

PICTURES = Path(__file__).parent / "pictures"
SIZE = (118, 32)
_BUSY_S = 45
"""Ask the model something meanwhile: the engine's picture shows the last minutes."""
_REMOTE_FONT = re.compile(r"\s*@font-face \{.*?\}", re.DOTALL)
_SHOTS: dict[str, tuple[tuple[str, ...], ...]] = {
    "releases": (("1", "home", "down"),),
    "compare": (("1", "home", "down", "down", "down", "m", "home", "down", "c"),),
    "sessions": (("2", "home"),),
    "runs": (("3", "home"),),
    "engine": (("4",),),
}
"""Name → keys, pressed in groups with a moment between them."""


async def main(scenario: str) -> None:
    app = ReefApp(scenario=scenario, theme=DARK)
    async with app.run_test(size=SIZE) as pilot:
        await asyncio.sleep(2)
        for name, groups in _SHOTS.items():
            for keys in groups:
                for key in keys:
                    await pilot.press(key)
                    await asyncio.sleep(0.3)
            await asyncio.sleep(_BUSY_S if name == "engine" else 1)
            take(pilot, name)
            await pilot.press("escape")


def take(pilot: Pilot[None], name: str) -> None:
    svg = pilot.app.export_screenshot(title="reef", simplify=True)
    (PICTURES / f"app-{name}.svg").write_text(_REMOTE_FONT.sub("", svg), encoding="utf-8")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "default"))
