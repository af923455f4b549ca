"""The engine's smallest parts, without a model: text as it streams."""

from __future__ import annotations

from daemon.engine.llama.text import TextStream


def test_text_never_splits_a_character_and_never_shows_a_stop_string() -> None:
    data = "für 🐚 alle END nicht".encode()
    for size in (1, 2, 3, 5):
        stream, shown = TextStream(("END", "nie")), ""
        for start in range(0, len(data), size):
            shown += stream.push(data[start : start + size])
            assert "\ufffd" not in shown
            if stream.stop:
                break
        assert (shown, stream.stop) == ("für 🐚 alle ", "END")
    stream = TextStream(("<end>",))
    assert stream.push(b"a <en") == "a "
    assert stream.push(b"try>") == "<entry>"
    assert stream.push("é".encode()[:1]) + stream.finish() == ""
