"""`reef --help` and `reef status` must not wait for what they do not use."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {"pydantic", "httpx", "rich", "torch", "transformers", "llama_cpp", "textual", "yaml", "numpy", "openai", "dulwich"}
PROBE = """
import sys
from reef_cli.error_handler import run
from reef_cli.main import build_app
code = run(build_app, sys.argv[1:])
print("LOADED", *sorted({name.partition(".")[0] for name in sys.modules}), "EXIT", code)
"""


@pytest.mark.parametrize("arguments", [["--help"], ["status"], ["good", "--help"]], ids=" ".join)
def test_nothing_heavy_is_imported(arguments: list[str]) -> None:
    result = subprocess.run([sys.executable, "-P", "-c", PROBE, *arguments], capture_output=True, text=True, timeout=30, check=True)
    loaded = set(result.stdout.split("LOADED", 1)[1].split())
    assert not loaded & HEAVY
    assert "typer" in loaded


def test_help_loads_no_verb() -> None:
    probe = "import sys; from reef_cli.main import build_app; build_app(''); print([n for n in sys.modules if 'commands.' in n])"
    result = subprocess.run([sys.executable, "-P", "-c", probe], capture_output=True, text=True, timeout=30, check=True)
    assert result.stdout.strip() == "[]"
