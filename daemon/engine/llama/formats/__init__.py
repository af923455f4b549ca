"""How model families write tool calls and reasoning: one file a family, each a `ToolFormat`. `families.py` tells them apart."""
