"""The adapter of pi, a coding agent from npm."""
