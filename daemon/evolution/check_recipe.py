"""Checks a recipe as `reef:` names them, in a process of its own: this imports the user's code, which the daemon must not.

`python -P -m daemon.evolution.check_recipe`, asked by `daemon.recipe_check`. The parent's message is `{"recipe", "settings",
"search_paths"}`, the answer `{"ok": true, "takes_instructions"}` or `{"ok": false, "message", "hint", "param"}`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pydantic import BaseModel, ConfigDict, JsonValue

from daemon import child_main
from daemon.errors import ReefError
from daemon.evolution.discovery import find_recipe, validate_settings
from daemon.records import JSONObject


class Question(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    recipe: str
    settings: dict[str, JsonValue] = {}
    search_paths: tuple[Path, ...] = ()


def answer(question: Question) -> JSONObject:
    """Whether a run could begin with this recipe and these settings."""
    try:
        recipe = find_recipe(question.recipe, question.search_paths)
        recipe(validate_settings(recipe, question.settings))
    except ReefError as error:
        return {"ok": False, "message": error.message, "hint": error.hint, "param": error.param}
    except Exception as error:  # noqa: BLE001 - a plugin may raise anything
        message = f"The recipe {question.recipe!r} cannot be made: {type(error).__name__}: {error}."
        return {"ok": False, "message": message, "hint": "Mend the recipe's file.", "param": "reef.recipe"}
    return {"ok": True, "takes_instructions": recipe.takes_instructions}


def main() -> int:
    """Answer one question."""
    child_main.prepare()
    for message in child_main.read_messages():
        child_main.send(answer(Question.model_validate(message)))
        return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
