"""pi must neither call a small window full from the start, nor ask for more than fits."""

from __future__ import annotations

import pytest

from adapters.pi.window import SMALLEST_CONTEXT_TOKENS, fit_window
from daemon.errors import Unsupported

PI_OWN_PROMPT_TOKENS = 1500


@pytest.mark.parametrize("context_tokens", [4096, 8192, 16384, 32768, 131072, 1 << 20])
def test_a_first_turn_fits_with_room_to_spare(context_tokens: int) -> None:
    window = fit_window(context_tokens, 4096)
    assert PI_OWN_PROMPT_TOKENS + window.reserve < context_tokens
    assert window.reply <= window.reserve, "a whole reply must fit into what pi keeps free"
    assert window.keep_recent + window.reserve < context_tokens, "a compaction must leave less than it found"


def test_the_served_limit_on_replies_is_kept() -> None:
    assert fit_window(32768, 1000).reply == 1000


def test_a_window_that_no_agent_fits_into_is_refused_with_its_size() -> None:
    with pytest.raises(Unsupported, match="2048"):
        fit_window(2048, 512)
    assert fit_window(SMALLEST_CONTEXT_TOKENS, 512).context == SMALLEST_CONTEXT_TOKENS
