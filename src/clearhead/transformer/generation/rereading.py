"""Reads again what cannot be kept: texts so long that every token changes all angles."""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from clearhead.transformer.cache import KVCache
from clearhead.transformer.calls import Encoded
from clearhead.transformer.generation.reading import (
    CachedReader,
    Reader,
    Rows,
    encoded,
    left_padded,
    some_rows,
)
from clearhead.transformer.model import Transformer

__all__ = ["OutgrowingReader", "WholeReader"]


class WholeReader:
    """Reads without a cache: all of a row's tokens again at every step.

    Args:
        model: the model.
        prompts: what it reads first, a row each.
        sources: what its encoder reads, a row each, or None.

    Cost: time grows with the square of the text.
    """

    def __init__(self, model: Transformer, prompts: Rows, *, sources: Rows | None = None) -> None:
        self._model, self._sources = model, sources
        self._source: Encoded | None = None
        self._texts = [list(prompt) for prompt in prompts]

    @property
    def cache(self) -> None:
        """None: what cannot be kept is read again."""
        return None

    @torch.no_grad()
    def begin(self, progress: Callable[[int], None]) -> Float[Tensor, "batch vocabulary"]:
        """Read the prompts."""
        self._source = encoded(self._model, self._sources)
        logits = self._read()
        progress(max(map(len, self._texts)))
        return logits

    @torch.no_grad()
    def step(self, tokens: Sequence[int]) -> Float[Tensor, "batch vocabulary"]:
        """Read the texts anew, one token longer."""
        for text, token in zip(self._texts, tokens, strict=True):
            text.append(token)
        return self._read()

    def keep(self, rows: Sequence[int]) -> None:
        """Go on with some of the rows only."""
        self._texts = [self._texts[row] for row in rows]
        self._source = some_rows(self._source, rows)

    def _read(self) -> Float[Tensor, "batch vocabulary"]:
        ids, real = left_padded(self._texts, self._model.token_embedding.weight.device)
        found = self._model(ids, attention_mask=real, source=self._source, logits_to_keep=1)
        return found.logits[:, -1]


class OutgrowingReader:
    """Reads with a cache while that holds, then without.

    Args:
        model: the model, whose angles change with a text's length from some length on.
        prompts: what it reads first, a row each.
        limit: that length: tokens of the longest text that a cache can hold.
        sources: what its encoder reads, a row each, or None.

    Cost: the cache's, and beyond the limit that of reading everything again.
    """

    def __init__(
        self, model: Transformer, prompts: Rows, *, limit: int, sources: Rows | None = None
    ) -> None:
        self._model, self._limit = model, limit
        self._sources = None if sources is None else list(sources)
        self._texts = [list(prompt) for prompt in prompts]
        self._outgrown = max(map(len, prompts)) > limit
        self._reader: Reader = (
            WholeReader(model, prompts, sources=sources)
            if self._outgrown
            else CachedReader(model, prompts, capacity=limit, sources=sources)
        )

    @property
    def cache(self) -> KVCache | None:
        """Keys and values of what was read, as long as they hold."""
        return self._reader.cache

    def begin(self, progress: Callable[[int], None]) -> Float[Tensor, "batch vocabulary"]:
        """Read the prompts."""
        return self._reader.begin(progress)

    def step(self, tokens: Sequence[int]) -> Float[Tensor, "batch vocabulary"]:
        """Read one more token a row."""
        for text, token in zip(self._texts, tokens, strict=True):
            text.append(token)
        if self._outgrown or max(map(len, self._texts)) <= self._limit:
            return self._reader.step(tokens)
        self._outgrown = True
        self._reader = WholeReader(self._model, self._texts, sources=self._sources)
        return self._reader.begin(lambda _: None)

    def keep(self, rows: Sequence[int]) -> None:
        """Go on with some of the rows only."""
        self._texts = [self._texts[row] for row in rows]
        if self._sources is not None:
            self._sources = [self._sources[row] for row in rows]
        self._reader.keep(rows)
