"""The app in a real terminal against a real daemon with the embedded model, all by keys."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.faults.scene import quick_recipes
from tests.e2e.reef_home import MANUAL, ReefHome
from tests.e2e.terminal import Terminal

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

APP = (sys.executable, "-P", "-m", "reef_cli.main")
RUN_S = 120.0


class Scene:
    """A daemon with a little experience and a recipe that is quick."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.serve = quick_recipes(folder / "mine", "Quick")
        self.reef = ReefHome(folder / "home", MANUAL)
        self.start()
        for question in ("Name a colour.", "Say hello.", "What is git?"):
            self.reef.ask(question, max_tokens=4)

    def start(self) -> None:
        self.reef.start("-c", str(self.serve), cwd=self.folder / "mine")

    def app(self, size: tuple[int, int] = (100, 30), terminal: str = "", **environment: str) -> Terminal:
        """`terminal`: another `TERM` than tmux's own."""
        command = ("env", f"TERM={terminal}", *APP) if terminal else APP
        return Terminal(self.folder, command, self.reef.environment(environment), size)

    def prefix(self) -> str:
        """The system prompt that a new session gets from what serves now."""
        receipt = self.reef.ask(f"Is it {time.monotonic()}?", max_tokens=2).receipt
        record = self.reef.get(f"/reef/scenarios/default/records/{receipt}")
        return "You are helper" if "You are helper" in str(record.get("payload", record)) else ""


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    scene = Scene(tmp_path_factory.mktemp("app"))
    with scene.reef:
        yield scene


def test_evolve_compare_roll_back_and_undo_by_keys(scene: Scene) -> None:
    with scene.app() as terminal:
        terminal.until("● r1", "the base model")
        terminal.press("3")
        terminal.until("Nothing was learned here yet")
        terminal.press("e")
        terminal.until("Start a run", "fault_recipes:Quick")
        terminal.press("Enter")
        terminal.until("promoted r2", seconds=RUN_S)
        assert scene.reef.head() == "r2" and scene.prefix()

        terminal.press("1")
        terminal.until("╭─ Releases", "●   r2")

        terminal.press("Home")  # the cursor stayed on r1, which was all there was
        terminal.until("serves now")
        terminal.press("m")  # r2, on which the cursor lies
        terminal.press("Down")
        terminal.press("c")
        terminal.until("You are helper")
        terminal.press("Escape")
        terminal.until("the base model", without="You are helper")

        terminal.press("Home")
        terminal.press("Down")
        terminal.press("r")
        terminal.until("Roll back to r1", "r3")
        terminal.press("y")
        terminal.until("● r3")
        assert scene.reef.head() == "r3" and not scene.prefix()

        terminal.press("u")
        terminal.until("Undo", "r4")
        terminal.press("y")
        terminal.until("● r4")
        assert scene.reef.head() == "r4" and scene.prefix()
        assert scene.reef.fsck().returncode == 0

        terminal.press("2")
        terminal.until("What is git?", "Name a colour.")
        terminal.press("q")
        wait_end(terminal)


def test_sixteen_colours_are_used_as_colours(scene: Scene) -> None:
    with scene.app((80, 24), terminal="linux") as terminal:
        terminal.until("▌ ●", "serves now")
        shown = terminal.coloured_screen
        assert "\x1b[92m●" in shown, "light green: it serves"
        assert "\x1b[38;" not in shown and "\x1b[48;" not in shown, "none that the terminal does not have"


def test_a_killed_daemon_is_told_of_and_comes_back_at_another_port(scene: Scene) -> None:
    with scene.app() as terminal:
        terminal.press("4")
        port = scene.reef.url
        terminal.until("● ready", port)
        head = scene.reef.head()
        scene.reef.kill()
        terminal.until("not connected", "reef up", head)
        scene.start()
        assert scene.reef.url != port
        terminal.until(scene.reef.url, without="not connected")
        scene.reef.ask("Name a number.", max_tokens=2)
        terminal.press("2")
        terminal.until("Name a number.")


def test_a_key_starts_the_daemon_and_a_small_terminal_without_colours_shows_all(scene: Scene) -> None:
    scene.reef.kill()
    try:
        with scene.app((80, 24), NO_COLOR="1", REEF_SERVER_PORT="0") as terminal:
            terminal.until("S starts")
            terminal.press("S")
            terminal.until("▌ ●", "serves now", "m Mark", seconds=60)
            terminal.press("?")
            terminal.until("Roll back", "esc Close")
    finally:
        subprocess.run([*APP, "down"], env=scene.reef.environment(), check=False, capture_output=True)


def wait_end(terminal: Terminal, seconds: float = 10) -> None:
    """The app ends by itself, without a complaint."""
    deadline = time.monotonic() + seconds
    while terminal.ended is None:
        assert time.monotonic() < deadline, f"the app has not ended:\n{terminal.screen}"
        time.sleep(0.1)
    assert terminal.ended == 0, terminal.screen
