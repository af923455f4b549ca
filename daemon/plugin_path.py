"""Where the user's own recipes and objectives are imported from. Called in run and trainer processes, never in the daemon."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable
from pathlib import Path

_RECIPES = "recipes"


def search_also(folders: Iterable[Path]) -> None:
    """Let modules be found in `folders` too, after everything installed, so that none of their files can shadow ours.

    A folder `recipes/` in one of them joins our package of that name: `recipes.sao.recipe` may be the user's.
    """
    ours = importlib.import_module(_RECIPES)
    for folder in folders:
        if str(folder) not in sys.path:
            sys.path.append(str(folder))
        theirs = folder / _RECIPES
        if theirs.is_dir() and str(theirs) not in ours.__path__:
            ours.__path__.append(str(theirs))
    importlib.invalidate_caches()
