"""What Claude Code runs of Reef: at a session's start, when one of Reef's commands is typed, and when a run has ended.

Each is a process of its own, `python -E -P -m adapters.claude.hook BINDING`, with the event as JSON on stdin and the answer on stdout.
"""
