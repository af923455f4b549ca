"""Looking at a text a few times only finds what trying every rule finds."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from daemon.redaction.gates import Gates
from daemon.redaction.redactor import Redactor, Secret
from daemon.redaction.rules import ASSIGNING, RULES
from daemon.redaction.user_patterns import rules_of

OWN = rules_of({"employee": "EMP-[0-9]{4}"})
REDACTOR = Redactor(OWN)
LITERALS = [literal for rule in RULES for literal in rule.literals]
PIECES = st.one_of(
    st.sampled_from(LITERALS),
    st.sampled_from(LITERALS).map(str.swapcase),
    st.text("abcXYZ0189", min_size=8, max_size=64),
    st.sampled_from(
        ["=", ": ", '="', '"', "\n", " ", "export ", "Bearer ", "password", "EMP-1234", "[redacted:npm-token]", "İ", "\ud800", "ß"]
    ),
    st.text(max_size=8),
)


@settings(max_examples=100, deadline=None)
@given(st.lists(PIECES, max_size=12).map("".join))
@example("token=" + "a1" * 12 + "\nghp_" + "a1B2" * 9)  # what is left in a secret's place opens another rule
def test_gates_shut_out_no_secret(text: str) -> None:
    found: list[Secret] = []
    everything: list[Secret] = []
    quick = REDACTOR._apply(text, found)
    slow = REDACTOR._try(REDACTOR._gates.all, text, text.lower(), everything)
    assert (quick, found) == (slow, everything)


def test_rules_that_assign_match_nothing_without_an_assignment() -> None:
    for rule in RULES:
        if rule.assigns:
            assert any(character in rule.pattern.pattern for character in ASSIGNING)


def test_a_rule_without_literals_is_always_tried() -> None:
    assert Gates((*OWN, *RULES)).open_for("nothing to see here", "nothing to see here") == 1
