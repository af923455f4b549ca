"""The adapter of codex, a coding agent from npm."""
