"""Runs the model over prompts and new tokens: a prompt in parts, then one token a step."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Protocol

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from clearhead.pipeline.tap import tapped
from clearhead.transformer.cache import KVCache
from clearhead.transformer.calls import Encoded
from clearhead.transformer.generation.plain import plain
from clearhead.transformer.hooks import hooks_of
from clearhead.transformer.model import Transformer

__all__ = ["PART", "CachedReader", "Reader", "Rows", "encoded", "left_padded", "some_rows"]

#: A prompt is read so many tokens at a time: what the layers make of them is all that memory
#: holds besides the cache, and a window's part of the cache is moved along by as many. Fewer at a
#: time are read more slowly.
PART = 2048

Rows = Sequence[Sequence[int]]


def left_padded(
    rows: Rows, device: torch.device
) -> tuple[Int[Tensor, "batch n"], Bool[Tensor, "batch n"]]:
    """Rows of different lengths side by side, so that all end at the same place.

    Args:
        rows: the ids of each.
        device: where to put them.

    Returns:
        The ids, and which of them are real.
    """
    width = max(map(len, rows))
    ids = torch.tensor([[0] * (width - len(row)) + list(row) for row in rows], device=device)
    lengths = torch.tensor([len(row) for row in rows], device=device)
    return ids, torch.arange(width, device=device) >= width - lengths[:, None]


class Reader(Protocol):
    """Reads the rows of a batch, and says what may come next in each."""

    @property
    def cache(self) -> KVCache | None:
        """Keys and values of what was read; None where none are kept."""
        ...

    def begin(self, progress: Callable[[int], None]) -> Float[Tensor, "batch vocabulary"]:
        """Read the prompts.

        Args:
            progress: is told how many tokens of the longest were read.

        Returns:
            Logits of the next token.
        """
        ...

    def step(self, tokens: Sequence[int]) -> Float[Tensor, "batch vocabulary"]:
        """Read one more token a row.

        Args:
            tokens: the tokens.

        Returns:
            Logits of the next token.
        """
        ...

    def keep(self, rows: Sequence[int]) -> None:
        """Go on with some of the rows only.

        Args:
            rows: which.
        """
        ...


class CachedReader:
    """Reads with a cache: every token once.

    Args:
        model: the model.
        prompts: what it reads first, a row each.
        capacity: most tokens a row will have.
        sources: what its encoder reads, a row each, or None.

    Cost: the cache, and what the layers make of 2,048 tokens a row; time as the model's own.
    """

    def __init__(
        self, model: Transformer, prompts: Rows, *, capacity: int, sources: Rows | None = None
    ) -> None:
        self._model, self._prompts, self._sources = model, prompts, sources
        self._source: Encoded | None = None
        self._plain, self._hooked = plain(model), hooks_of(model)
        weight = model.token_embedding.weight
        self._cache = KVCache(
            model.config,
            batch=len(prompts),
            capacity=capacity,
            dtype=weight.dtype,
            device=weight.device,
        )

    @property
    def cache(self) -> KVCache:
        """Keys and values of what was read."""
        return self._cache

    def begin(self, progress: Callable[[int], None]) -> Float[Tensor, "batch vocabulary"]:
        """Read the prompts, part by part."""
        with self._without_gradients():
            return self._begin(progress)

    def _begin(self, progress: Callable[[int], None]) -> Float[Tensor, "batch vocabulary"]:
        self._source = encoded(self._model, self._sources)
        ids, real = left_padded(self._prompts, self._model.token_embedding.weight.device)
        width = ids.shape[1]
        # where all angles change beyond some length, the parts before it would be read twice
        part = width if self._cache.switches else PART
        logits = None
        for start in range(0, width, part):
            some = slice(start, start + part)
            logits = self._read(ids[:, some], real[:, some])
            progress(min(start + part, width))
        assert logits is not None
        return logits

    def step(self, tokens: Sequence[int]) -> Float[Tensor, "batch vocabulary"]:
        """Read one more token a row."""
        ids = torch.tensor(tokens, device=self._model.token_embedding.weight.device)
        with self._without_gradients():
            return self._read(ids[:, None], None)

    def keep(self, rows: Sequence[int]) -> None:
        """Go on with some of the rows only; copies their part of the cache."""
        self._cache.reorder(rows)
        self._source = some_rows(self._source, rows)

    def _read(
        self, ids: Int[Tensor, "batch n"], real: Bool[Tensor, "batch n"] | None
    ) -> Float[Tensor, "batch vocabulary"]:
        model = self._model if self._seen() else self._plain
        found = model(
            ids, attention_mask=real, cache=self._cache, source=self._source, logits_to_keep=1
        )
        return found.logits[:, -1]

    def _without_gradients(self) -> AbstractContextManager[object]:
        """No gradients; and where nobody looks on, none of what PyTorch keeps for them either.

        What is made so cannot be trained on, and hooks and taps collect what others train on.
        """
        return torch.no_grad() if self._seen() else torch.inference_mode()

    def _seen(self) -> bool:
        """Whether a hook or a tap looks on."""
        return tapped() or self._hooked()


def encoded(model: Transformer, sources: Rows | None) -> Encoded | None:
    """What a model's encoder makes of its texts.

    Args:
        model: the model.
        sources: the texts, a row each, or None for a model without one.
    """
    if sources is None:
        return None
    ids, real = left_padded(sources, model.token_embedding.weight.device)
    return model.encode(ids, attention_mask=real)


def some_rows(source: Encoded | None, rows: Sequence[int]) -> Encoded | None:
    """The chosen rows of what an encoder made.

    Args:
        source: what it made, or None.
        rows: which rows.
    """
    if source is None:
        return None
    chosen = torch.tensor(rows, device=source.hidden.device)
    real = None if source.real is None else source.real[chosen]
    return replace(source, hidden=source.hidden[chosen], real=real)
