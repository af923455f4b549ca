"""The model's vocabulary: text to token ids and back. Safe to use from several threads."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from dataclasses import dataclass

from llama_cpp import llama_cpp as native

_UNKNOWN, _CONTROL, _DEFINED = 1 << 0, 1 << 3, 1 << 4  # LLAMA_TOKEN_ATTR_UNKNOWN, _CONTROL, _USER_DEFINED


@dataclass(frozen=True, slots=True)
class FillTokens:
    """The tokens that mark what stands before a gap, what stands after it, and the gap itself."""

    prefix: int
    suffix: int
    middle: int


class Vocabulary:
    """See the module. All pieces are read once: a reply asks for one at every token.

    Attributes:
        controls: ids of the control tokens by their texts, such as `<|im_end|>`.
        defined_texts: of tokens that are read in any text, whoever wrote it; some models have their role markers among them.
        fill_tokens: None where the model cannot fill in the middle.
    """

    def __init__(self, model: int) -> None:
        self.address = int(native.llama_model_get_vocab(model))  # of llama.cpp's own, for libraries that read it too
        self.size = int(native.llama_vocab_n_tokens(self.address))
        self.adds_begin = bool(native.llama_vocab_get_add_bos(self.address))
        self._spelled = [self._piece(token) for token in range(self.size)]
        control = {token for token in range(self.size) if native.llama_vocab_get_attr(self.address, token) & (_UNKNOWN | _CONTROL)}
        self._pieces = [b"" if token in control else piece for token, piece in enumerate(self._spelled)]
        self.controls = {self._spelled[token].decode(errors="replace"): token for token in sorted(control) if self._spelled[token]}
        self.defined_texts = frozenset(
            self._spelled[token].decode(errors="replace")
            for token in range(self.size)
            if native.llama_vocab_get_attr(self.address, token) & _DEFINED
        )
        self._ends = frozenset(token for token in range(self.size) if native.llama_vocab_is_eog(self.address, token))
        self.longest_piece_bytes = max(1, *map(len, self._spelled))
        self.begin_text = self._text_of(native.llama_vocab_bos(self.address))
        self.end_text = self._text_of(native.llama_vocab_eos(self.address))
        self.control_texts, self.control_tokens = tuple(self.controls), tuple(self.controls.values())
        self.fill_tokens = self._fill_tokens()

    def tokenize(self, text: str, *, begin: bool = False, special: bool = False) -> list[int]:
        """Token ids. `begin` puts the begin-of-text token first where the model wants one; `special` reads control tokens."""
        data = text.encode(errors="replace")
        room = len(data) + 8
        tokens = (native.llama_token * room)()
        count = native.llama_tokenize(self.address, data, len(data), tokens, room, begin, special)
        if count < 0:
            tokens = (native.llama_token * -count)()
            count = native.llama_tokenize(self.address, data, len(data), tokens, -count, begin, special)
        return tokens[:count]

    def piece(self, token: int, *, special: bool = False) -> bytes:
        """The bytes of one token, perhaps a part of a character; empty for a control token unless `special`."""
        return self._spelled[token] if special else self._pieces[token]

    def ends(self, token: int) -> bool:
        """Whether the model says with this token that its turn is over."""
        return token in self._ends

    def markers(self, texts: Iterable[str]) -> dict[int, bytes]:
        """Of these texts those that are control tokens, by id: what a reply's parser must see although it is no text."""
        return {token: self._spelled[token] for text in texts if (token := self.controls.get(text)) is not None}

    def _piece(self, token: int) -> bytes:
        buffer = ctypes.create_string_buffer(64)
        length = native.llama_token_to_piece(self.address, token, buffer, 64, 0, True)
        if length < 0:
            buffer = ctypes.create_string_buffer(-length)
            length = native.llama_token_to_piece(self.address, token, buffer, -length, 0, True)
        return buffer.raw[: max(0, length)]

    def _text_of(self, token: int) -> str:
        return self._spelled[token].decode(errors="replace") if token >= 0 else ""

    def _fill_tokens(self) -> FillTokens | None:
        read = (native.llama_vocab_fim_pre, native.llama_vocab_fim_suf, native.llama_vocab_fim_mid)
        tokens = [int(each(self.address)) for each in read]
        return FillTokens(*tokens) if min(tokens) >= 0 else None
