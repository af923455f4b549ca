"""What shells and shellcheck say of a script."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path


def check_script(path: Path) -> None:
    """sh and bash read it; shellcheck, where it is installed, finds nothing."""
    for shell in ("sh", "bash"):
        subprocess.run([shell, "-n", str(path)], check=True)
    if shutil.which("shellcheck"):
        done = subprocess.run(["shellcheck", "--shell=sh", str(path)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout
