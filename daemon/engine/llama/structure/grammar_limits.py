"""How much a grammar may cost, the same where it is tried and where it is followed."""

from __future__ import annotations

from llguidance import LLParserLimits


def grammar_limits() -> LLParserLimits:
    """So that no step takes longer than a few of the model's own, and no reply more than some 25 MB."""
    return LLParserLimits(max_items_in_row=10_000, step_lexer_fuel=50_000, max_lexer_states=20_000, verbose_errors=False)
