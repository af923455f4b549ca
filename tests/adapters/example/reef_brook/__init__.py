"""The adapter of brook, an agent that does not exist: what a fifth adapter takes."""
