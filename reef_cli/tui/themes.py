"""The app's two looks. Text is told apart by words and signs too: each reads as well without colour."""

from __future__ import annotations

from textual.theme import Theme

DARK, LIGHT = "reef-dark", "reef-light"

THEMES: tuple[Theme, ...] = (
    Theme(
        name=DARK,
        primary="#5fb6b3",
        secondary="#7fa8dc",
        accent="#eba37b",
        success="#8fca8b",
        warning="#e4bd6c",
        error="#e8828a",
        foreground="#cfd8df",
        background="#10161c",
        surface="#151d25",
        panel="#1c2732",
        dark=True,
        variables={
            "border": "#5fb6b3",
            "border-blurred": "#2b3946",
            "block-cursor-background": "#21424a",
            "block-cursor-foreground": "#eef4f6",
            "block-cursor-text-style": "bold",
            "block-cursor-blurred-background": "#1c2a34",
            "block-cursor-blurred-foreground": "#cfd8df",
            "block-hover-background": "#18232c",
            "footer-background": "#10161c",
            "footer-key-foreground": "#5fb6b3",
            "footer-description-foreground": "#8b99a5",
            "text-muted": "#8b99a5",
            "text-disabled": "#5c6a76",
            "text-primary": "#78c8c5",
            "text-secondary": "#9bbce6",
            "text-accent": "#f0b391",
            "text-success": "#8fca8b",
            "text-warning": "#e4bd6c",
            "text-error": "#e8828a",
            "scrollbar": "#2b3946",
            "scrollbar-hover": "#3b4d5d",
            "scrollbar-active": "#5fb6b3",
            "scrollbar-background": "#10161c",
            "scrollbar-background-hover": "#10161c",
            "scrollbar-background-active": "#10161c",
            "scrollbar-corner-color": "#10161c",
            "input-selection-background": "#5fb6b3 35%",
        },
    ),
    Theme(
        name=LIGHT,
        primary="#1c7876",
        secondary="#346aa3",
        accent="#b4562c",
        success="#2f7434",
        warning="#8a5e00",
        error="#b2343c",
        foreground="#2a343b",
        background="#faf9f6",
        surface="#f3f1ec",
        panel="#e9e6df",
        dark=False,
        variables={
            "border": "#1c7876",
            "border-blurred": "#d5d1c7",
            "block-cursor-background": "#cfe6e4",
            "block-cursor-foreground": "#15211f",
            "block-cursor-text-style": "bold",
            "block-cursor-blurred-background": "#eae8e1",
            "block-cursor-blurred-foreground": "#2a343b",
            "block-hover-background": "#f0eee8",
            "footer-background": "#faf9f6",
            "footer-key-foreground": "#1c7876",
            "footer-description-foreground": "#67737b",
            "text-muted": "#67737b",
            "text-disabled": "#9aa3a8",
            "text-primary": "#1c7876",
            "text-secondary": "#346aa3",
            "text-accent": "#b4562c",
            "text-success": "#2f7434",
            "text-warning": "#8a5e00",
            "text-error": "#b2343c",
            "scrollbar": "#d5d1c7",
            "scrollbar-hover": "#bdb8ac",
            "scrollbar-active": "#1c7876",
            "scrollbar-background": "#faf9f6",
            "scrollbar-background-hover": "#faf9f6",
            "scrollbar-background-active": "#faf9f6",
            "scrollbar-corner-color": "#faf9f6",
            "input-selection-background": "#1c7876 30%",
        },
    ),
)


def themes(colors: str | None) -> tuple[Theme, ...]:
    """The looks for what the terminal can show, as rich names it: `standard` are sixteen colours."""
    if colors == "standard":
        from reef_cli.tui.sixteen import sixteen

        return sixteen(DARK, LIGHT)
    return THEMES
