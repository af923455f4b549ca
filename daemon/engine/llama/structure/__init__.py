"""Replies held to a form: JSON schemas and forced tool calls as grammars, checked before they are trusted."""
