"""The model being trained, as an objective sees it: hidden states and logits, only where there are labels.

The output layer is a fifth of a small model's work, and most positions of a sample are prompt: so the body runs over
all tokens, the output layer only over the states that predict a label. `base_hidden` is the same model with its LoRA off.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from peft import PeftModel
from torch import Tensor
from torch.nn import functional
from transformers import PreTrainedModel

from daemon.errors import DataError
from daemon.training.job import Sample

_CHECKPOINTED_FROM_TOKENS = 1024
"""From this length on, activations are computed twice rather than kept: a third more time, a fraction of the memory."""


class Policy:
    """n below is the number of labels of the samples given, in order; d the model's width; V its vocabulary."""

    def __init__(self, model: PeftModel) -> None:
        inner = model.get_base_model()
        head = dict(inner.named_children()).get("lm_head")
        if not isinstance(inner, PreTrainedModel) or not isinstance(head, torch.nn.Linear):
            raise DataError("This architecture has no plain output layer.", "The model serves but does not train.")
        self._model = model
        self._inner = inner
        self._head = head
        self._base: dict[Sample, Tensor] = {}
        self.tokens_read = 0
        """Positions computed so far, padding included."""

    @property
    def vocabulary(self) -> int:
        return int(self._head.out_features)

    def parameters(self) -> list[torch.nn.Parameter]:
        """The LoRA's own."""
        return [parameter for parameter in self._model.parameters() if parameter.requires_grad]

    def hidden(self, samples: Sequence[Sample]) -> Tensor:
        """States that predict the labels: (n, d), with gradient."""
        width = max(len(sample.tokens) for sample in samples)
        tokens = torch.zeros((len(samples), width), dtype=torch.long)
        for row, sample in enumerate(samples):
            tokens[row, : len(sample.tokens)] = torch.tensor(sample.tokens)
        self.tokens_read += tokens.numel()
        self._checkpoint(width >= _CHECKPOINTED_FROM_TOKENS)
        # Padding stands on the right and attention looks left only: no mask is needed, and none is the faster path.
        states: Tensor = self._inner.base_model(input_ids=tokens, use_cache=False).last_hidden_state
        return torch.cat([states[row, [label - 1 for label in sample.labels]] for row, sample in enumerate(samples)])

    @torch.no_grad()
    def base_hidden(self, samples: Sequence[Sample]) -> Tensor:
        """The same with the LoRA off: (n, d), no gradient. Remembered, since the base does not change."""
        missing = [sample for sample in dict.fromkeys(samples) if sample not in self._base]
        if missing:
            with self._model.disable_adapter():
                states = torch.split(self.hidden(missing), [len(sample.labels) for sample in missing])
            self._base.update(zip(missing, (state.clone() for state in states), strict=True))
        return torch.cat([self._base[sample] for sample in samples])

    def logits(self, hidden: Tensor) -> Tensor:
        """(n, d) → (n, V)."""
        return functional.linear(hidden, self._head.weight, self._head.bias)

    def labels(self, samples: Sequence[Sample]) -> Tensor:
        """Token ids of the labels: (n,)."""
        return torch.tensor([sample.tokens[label] for sample in samples for label in sample.labels])

    def weights(self, samples: Sequence[Sample]) -> Tensor:
        """Each label's weight, its sample's: (n,)."""
        return torch.tensor([sample.weight for sample in samples for _ in sample.labels])

    def _checkpoint(self, wanted: bool) -> None:
        if wanted == self._inner.is_gradient_checkpointing:
            return
        if wanted:
            self._inner.gradient_checkpointing_enable({"use_reentrant": False})
            self._inner.train()
        else:
            self._inner.gradient_checkpointing_disable()  # type: ignore[no-untyped-call]
