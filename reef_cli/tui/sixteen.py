"""The app's looks for terminals of sixteen colours: each is one of the sixteen already.

Elsewhere the nearest of them would be taken for each colour of `themes`, and for the soft ones that is a grey.
"""

from __future__ import annotations

from textual.theme import Theme

_BLACK, _RED, _GREEN, _BROWN = "#000000", "#aa0000", "#00aa00", "#aa5500"
_BLUE, _MAGENTA, _CYAN, _GREY = "#0000aa", "#aa00aa", "#00aaaa", "#aaaaaa"
_DARK_GREY, _LIGHT_RED, _LIGHT_GREEN, _YELLOW = "#555555", "#ff5555", "#55ff55", "#ffff55"
_LIGHT_MAGENTA, _LIGHT_CYAN, _WHITE = "#ff55ff", "#55ffff", "#ffffff"


def sixteen(dark: str, light: str) -> tuple[Theme, ...]:
    """Both looks, under these names."""
    return (
        _theme(
            dark,
            is_dark=True,
            background=_BLACK,
            foreground=_WHITE,
            muted=_GREY,
            faint=_DARK_GREY,
            primary=_LIGHT_CYAN,
            secondary=_CYAN,
            accent=_LIGHT_MAGENTA,
            success=_LIGHT_GREEN,
            warning=_YELLOW,
            error=_LIGHT_RED,
            cursor=_BLUE,
            cursor_text=_WHITE,
        ),
        _theme(
            light,
            is_dark=False,
            background=_WHITE,
            foreground=_BLACK,
            muted=_DARK_GREY,
            faint=_GREY,
            primary=_BLUE,
            secondary=_BLUE,
            accent=_MAGENTA,
            success=_GREEN,
            warning=_BROWN,
            error=_RED,
            cursor=_CYAN,
            cursor_text=_BLACK,
        ),
    )


def _theme(
    name: str,
    *,
    is_dark: bool,
    background: str,
    foreground: str,
    muted: str,
    faint: str,
    primary: str,
    secondary: str,
    accent: str,
    success: str,
    warning: str,
    error: str,
    cursor: str,
    cursor_text: str,
) -> Theme:
    """`faint`: of lines and bars; `cursor`: behind the selected row."""
    return Theme(
        name=name,
        primary=primary,
        secondary=secondary,
        accent=accent,
        success=success,
        warning=warning,
        error=error,
        foreground=foreground,
        background=background,
        surface=background,
        panel=background,
        dark=is_dark,
        variables={
            "border": primary,
            "border-blurred": faint,
            "block-cursor-background": cursor,
            "block-cursor-foreground": cursor_text,
            "block-cursor-text-style": "bold",
            "block-cursor-blurred-background": background,
            "block-cursor-blurred-foreground": foreground,
            "block-hover-background": background,
            "footer-background": background,
            "footer-key-foreground": primary,
            "footer-description-foreground": muted,
            "text-muted": muted,
            "text-disabled": faint,
            "text-primary": primary,
            "text-secondary": secondary,
            "text-accent": accent,
            "text-success": success,
            "text-warning": warning,
            "text-error": error,
            "success-muted": background,
            "error-muted": background,
            "scrollbar": faint,
            "scrollbar-hover": muted,
            "scrollbar-active": primary,
            "scrollbar-background": background,
            "scrollbar-background-hover": background,
            "scrollbar-background-active": background,
            "scrollbar-corner-color": background,
            "input-selection-background": cursor,
        },
    )
