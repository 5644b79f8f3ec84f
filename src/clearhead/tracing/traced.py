"""A Trace: everything attention did with one sequence, in memory linear in its length."""

import os
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor

from clearhead.errors import InputError
from clearhead.masks import Full, Verdict
from clearhead.masks.places import numbers
from clearhead.pipeline.showing import ShowsItself, shower
from clearhead.pipeline.visibility import row_blocks
from clearhead.tokens.tokenizer import TextTokenizer
from clearhead.tracing.choosing import integer
from clearhead.tracing.layer_trace import LayerTrace
from clearhead.tracing.sources import Measure
from clearhead.tracing.traced_layers import TracedLayers, listed

__all__ = ["NextToken", "Trace"]


@dataclass(frozen=True, slots=True)
class NextToken:
    """A token that may come next.

    Attributes:
        token: its text.
        token_id: its number.
        probability: softmax of the model's logits.
    """

    token: str
    token_id: int
    probability: float


@dataclass(frozen=True, eq=False, repr=False)
class Trace(TracedLayers, ShowsItself):
    """One sequence, as a model's attention saw it: no padding, no batch axis.

    ``trace[5]`` is layer 5. Q, K, V and L of every layer are kept; every row, tile, map and
    statistic of S and A is made from them when asked, exactly.

    Attributes:
        weights_origin: where the model's weights come from and in what precision.
        token_ids: the tokens by number.
        seconds: how long the model ran.
        context_length: positions the model was made for, or None.
        next_logits: the model's logits after the last token, or None without such a head.
        tokenizer: the tokenizer, or None.
    """

    weights_origin: str
    token_ids: tuple[int, ...]
    seconds: float
    context_length: int | None
    next_logits: Float[Tensor, "vocabulary"] | None
    tokenizer: TextTokenizer | None

    @cached_property
    def causal(self) -> bool:
        """Whether no token could look at a later one, in any traced layer: read from the masks.

        Of tokens that a cache spared, no mask was seen: a model that reads from one is causal.
        """
        return all(_is_causal(layer, len(self)) for layer in self.by_layer.values())

    def next_tokens(self, k: int = 5) -> tuple[NextToken, ...]:
        """The likeliest tokens after the last one.

        Args:
            k: how many.

        Returns:
            The likeliest first; empty for a model that does not predict the next token.

        Raises:
            InputError: ``k`` is no number of tokens.
        """
        count = integer(k)
        if count is None or count < 1:
            raise InputError(f"k must be an integer of at least 1, got {k!r}")
        if self.next_logits is None or not self.causal:
            return ()
        probabilities = self.next_logits.double().softmax(-1)
        top = probabilities.topk(min(count, len(probabilities)))
        likeliest = zip(numbers(top.indices), top.values, strict=True)
        return tuple(
            NextToken(self._spelled(number), number, float(probability))
            for number, probability in likeliest
        )

    def report(
        self,
        path: str | os.PathLike[str],
        *,
        token: int | str | None = None,
        by: Measure = "contribution",
        layers: Collection[int] | None = None,
        top: int = 8,
    ) -> None:
        """Write a page that shows where one token drew from, and every other that was kept.

        Args:
            path: where to.
            token: the token that is shown first, by position or as a word; None is the last whose
                row was kept.
            by: what the shares follow, ``"contribution"`` or ``"attention"``.
            layers: the layers to sum over; None is all that were traced.
            top: how many of the strongest links to list.

        Raises:
            InputError: an argument cannot be served, or the page cannot be written there.
            TokenError: there is no such token.
            NotKeptError: its row was not kept, or contributions are asked for and W_O is not known.

        Cost: one pass over rows of A of at most 512 tokens; a file of up to 5 MB, of up to 8 MB
        for more than 1,024 tokens.
        """
        shower("page").report_trace(self, path, token=token, by=by, layers=layers, top=top)

    def __repr__(self) -> str:
        return (
            f"Trace({self.model_name!r}, {len(self)} tokens, {listed(self.layers)}, "
            f"{self.nbytes:,} bytes)"
        )

    def _spelled(self, number: int) -> str:
        if self.tokenizer is None:
            return str(number)
        return self.tokenizer.pieces([number])[0].label


def _is_causal(layer: LayerTrace, tokens: int) -> bool:
    rule = layer.recorded.of_all
    if rule.mask is None or isinstance(rule.mask, Full):
        return False
    before = tokens - rule.queries  # whose rows a cache spared
    for rows in row_blocks(rule.queries):
        own = range(rows.start + before, rows.stop + before)
        beyond = range(own.stop, tokens)
        if len(beyond) and rule.verdict(rows, beyond) is not Verdict.NONE:
            return False
        tile = rule.visible(rows, own, device=torch.device("cpu"))
        assert tile is not None
        if bool(tile.cpu().triu(1).any()):
            return False
    return True
