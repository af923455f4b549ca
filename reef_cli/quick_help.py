"""typer reads an option that was not typed through pydantic unless it already holds a boolean; importing that takes longer than a
whole command. Its own --help starts as None, so it is given False here."""

from __future__ import annotations

from typer import Context
from typer.core import TyperCommand, TyperGroup, TyperOption


class QuickCommand(TyperCommand):
    def get_help_option(self, ctx: Context) -> TyperOption | None:  # type: ignore[override]  # typer's base names a private twin of Context
        return _with_false(super().get_help_option(ctx))


class QuickGroup(TyperGroup):
    def get_help_option(self, ctx: Context) -> TyperOption | None:  # type: ignore[override]  # typer's base names a private twin of Context
        return _with_false(super().get_help_option(ctx))


def _with_false(option: TyperOption | None) -> TyperOption | None:
    if option is not None:
        option.default = False
    return option
