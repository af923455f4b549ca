"""The printed reference must say what the settings' models say."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


def test_the_configuration_reference_is_current() -> None:
    specification = importlib.util.spec_from_file_location("make_configuration", DOCS / "make_configuration.py")
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    assert (DOCS / "configuration.md").read_text(encoding="utf-8") == module.reference(), "run: python docs/make_configuration.py"


@pytest.mark.parametrize("page", [*sorted(path.name for path in DOCS.glob("*.md")), "../README.md", "../CONTRIBUTING.md"])
def test_links_between_pages_lead_somewhere(page: str) -> None:
    import re

    text = (DOCS / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
        assert ((DOCS / page).parent / target).exists(), f"{page} links to {target}"
