"""The variables that keep Claude Code to its own folder, to Reef, and to itself; and those that tell it of the served model.

The first are the launcher's. The second lie in `settings.json`, which Claude Code reads again while it runs and which wins over the user's
environment, so that an update in the midst of a session holds there too.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from adapters.claude.window import Window
from daemon.harness.adapter import InstallContext
from daemon.harness.launcher import plain_folder

_ALONE: Final = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",  # telemetry, error reports, surveys, release notes
    "CLAUDE_CODE_DISABLE_OFFICIAL_MARKETPLACE_AUTOINSTALL": "1",  # else it clones one from the network at its first start
    "CLAUDE_CODE_IDE_SKIP_AUTO_INSTALL": "1",  # else it installs an extension into the editor whose terminal it runs in
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_LOGIN_COMMAND": "1",
    "DISABLE_LOGOUT_COMMAND": "1",
    "DISABLE_COST_WARNINGS": "1",
    "CLAUDE_CODE_ATTRIBUTION_HEADER": "0",  # changes with each request, and with it the prompt that is cached
    "CLAUDE_CODE_MAX_RETRIES": "4",  # 8 s while the daemon is down, in place of 3 minutes
}
_NOT_THE_USERS: Final = (
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_BETAS",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CLAUDE_CODE_USE_ANTHROPIC_AWS",
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_FOUNDRY",
    "CLAUDE_CODE_USE_GATEWAY",
    "CLAUDE_CODE_USE_MANTLE",
    "CLAUDE_CODE_USE_VERTEX",
)
"""Emptied: with the user's own key or provider it would send the key to Reef, or go elsewhere."""

_ROLES: Final = (
    "ANTHROPIC_MODEL",
    "ANTHROPIC_DEFAULT_FABLE_MODEL",
    "ANTHROPIC_DEFAULT_HAIKU_MODEL",
    "ANTHROPIC_DEFAULT_OPUS_MODEL",
    "ANTHROPIC_DEFAULT_SONNET_MODEL",
    "ANTHROPIC_SMALL_FAST_MODEL",
    "CLAUDE_CODE_SUBAGENT_MODEL",
)
"""Reef serves one model, whoever of them is asked for."""

_FOR_SMALL_WINDOWS: Final = {
    f"CLAUDE_CODE_DISABLE_{what}": "1" for what in ("AGENT_VIEW", "ARTIFACT", "BUNDLED_SKILLS", "CRON", "WORKFLOWS")
}


HEADERS: Final = "ANTHROPIC_CUSTOM_HEADERS"


def launch_variables(folder: Path, context: InstallContext) -> dict[str, str]:
    """Of the headers the last is the folder that Claude Code is started in, which is not known here."""
    headers = {"x-reef-scenario": context.scenario, "x-reef-tag-client": "claude"}
    if context.release_id:
        headers["x-reef-tag-release"] = context.release_id
    lines = "".join(f"{name}: {value}\n" for name, value in headers.items())
    emptied = dict.fromkeys(_NOT_THE_USERS, "")
    return {"CLAUDE_CONFIG_DIR": str(folder), **_ALONE, **emptied, HEADERS: f"{lines}x-reef-tag-cwd: "}


def task_headers(before: str, working_copy: Path, session: str) -> str:
    """The headers of one task. The session is named by a header: the id that Claude Code itself takes must be a UUID that is new."""
    ended = f"{before}{plain_folder(working_copy)}"
    return f"{ended}\nx-reef-tag-session: {plain_folder(Path(session))}" if session else ended


def model_variables(context: InstallContext, window: Window) -> dict[str, str]:
    return {
        "ANTHROPIC_BASE_URL": context.base_url.rstrip("/"),
        **dict.fromkeys(_ROLES, context.model_id),
        "CLAUDE_CODE_MAX_CONTEXT_TOKENS": str(window.context),
        "CLAUDE_CODE_MAX_OUTPUT_TOKENS": str(window.reply),
        "CLAUDE_CODE_FILE_READ_MAX_OUTPUT_TOKENS": str(window.file),
        "MAX_MCP_OUTPUT_TOKENS": str(window.file),
        "BASH_MAX_OUTPUT_LENGTH": str(window.output_characters),
        "SLASH_COMMAND_TOOL_CHAR_BUDGET": str(window.skills_characters),
        **(_FOR_SMALL_WINDOWS if window.small else {}),
    }


MODEL_VARIABLES: Final = frozenset(
    {
        "ANTHROPIC_BASE_URL",
        *_ROLES,
        "CLAUDE_CODE_MAX_CONTEXT_TOKENS",
        "CLAUDE_CODE_MAX_OUTPUT_TOKENS",
        "CLAUDE_CODE_FILE_READ_MAX_OUTPUT_TOKENS",
        "MAX_MCP_OUTPUT_TOKENS",
        "BASH_MAX_OUTPUT_LENGTH",
        "SLASH_COMMAND_TOOL_CHAR_BUDGET",
        *_FOR_SMALL_WINDOWS,
    }
)
