"""What a trace is asked for, and the sequences that run together."""

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from clearhead.errors import InputError, TokenError
from clearhead.masks.places import numbers
from clearhead.tokens.pieces import Piece
from clearhead.tokens.tokenizer import TextTokenizer
from clearhead.tracing.choosing import chosen_queries
from clearhead.tracing.models import TraceableModel
from clearhead.tracing.recorder import SequencePart

__all__ = ["Batch", "Order"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Order:
    """What was asked for besides the inputs: the same for every text of a list.

    Attributes:
        adapter: the model.
        words: its tokenizer, or None.
        layers: layers to keep; None is all.
        queries: tokens whose Q and L are kept; None is all.
        keep: further quantities to keep.
        computes_on: where the model computes.
        lies_on: where the traces are to lie.
    """

    adapter: TraceableModel
    words: TextTokenizer | None
    layers: Collection[int] | slice | None
    queries: slice | Collection[int] | None
    keep: Collection[str]
    computes_on: torch.device
    lies_on: torch.device


@dataclass(frozen=True, eq=False)
class Batch:
    """Sequences that run together.

    Attributes:
        order: what was asked for.
        ids: the ids, padding included, where the model computes.
        real: which are real; None is all.
        queries: those of each sequence whose Q and L are kept; None is all that are read.
        held: how many of the first tokens a cache holds: they are not read.
    """

    order: Order
    ids: Int[Tensor, "batch n"]
    real: Bool[Tensor, "batch n"] | None
    queries: slice | Collection[int] | None
    held: int = 0

    @cached_property
    def parts(self) -> list[SequencePart]:
        """Where each sequence lies."""
        return [self._part(row) for row in range(len(self.ids))]

    @property
    def read(self) -> Int[Tensor, "batch n"]:
        """The ids that are read, padding included."""
        return self.ids[:, self.held :]

    @property
    def mask(self) -> Bool[Tensor, "batch n"] | None:
        """Which are real, where the model computes."""
        return None if self.real is None else self.real.to(self.ids.device)

    @property
    def last(self) -> Int[Tensor, "batch"]:
        """The place of each row's last real token among those that are read."""
        ids, real = self.read, self.real
        if real is None:
            return torch.full((ids.shape[0],), ids.shape[1] - 1, device=ids.device)
        return (real.long() * torch.arange(ids.shape[1])).argmax(-1).to(ids.device)

    def token_ids(self, index: int) -> tuple[int, ...]:
        """The real tokens of one sequence.

        Args:
            index: its batch row.
        """
        row, places = self.ids[index], self.parts[index].tokens
        return tuple(numbers(row if places is None else row[places.to(row.device)]))

    def pieces(self, index: int) -> tuple[Piece, ...]:
        """The real tokens of one sequence as shown.

        Args:
            index: its batch row.
        """
        ids, words = list(self.token_ids(index)), self.order.words
        return tuple(words.pieces(ids) if words else [Piece(str(number)) for number in ids])

    def kept_queries(self, index: int) -> Int[Tensor, "r"]:
        """Tokens of one sequence whose Q and L are kept, counted among all its real ones.

        Args:
            index: its batch row.
        """
        kept = self.parts[index].queries
        if kept is None:
            return torch.arange(self.held, len(self.token_ids(index)))
        return kept + self.held

    def check_length(self, most: int | None, *, called: str) -> None:
        """Refuse what is longer than the model reads.

        Args:
            most: positions it was made for, or None.
            called: what these sequences are to it.

        Raises:
            TokenError: the longest has more tokens.
        """
        longest = self.ids.shape[1] if self.real is None else int(self.real.sum(-1).max())
        if most is not None and longest > most:
            name = self.order.adapter.name
            raise TokenError(
                f"the {called} has {longest:,} tokens, and {name} reads at most {most:,}"
            )

    def _part(self, row: int) -> SequencePart:
        real = None if self.real is None or bool(self.real[row].all()) else self.real[row]
        tokens = None if real is None else real.nonzero().flatten()
        if self.queries is None:
            return SequencePart(row, tokens, None)
        count = self.ids.shape[1] if tokens is None else len(tokens)
        chosen = chosen_queries(self.queries, count)
        if min(chosen) < self.held:
            raise InputError(
                f"queries must choose tokens that are read now, {self.held} to {count - 1}: the "
                f"cache holds those before; got {self.queries}"
            )
        return SequencePart(row, tokens, torch.tensor(chosen) - self.held)
