"""A Trace: everything attention did with one sequence, in memory linear in its length."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from clearhead.errors import InputError, NotKeptError
from clearhead.masks import Full, Verdict
from clearhead.masks.places import numbers
from clearhead.pipeline.visibility import row_blocks
from clearhead.tokens.pieces import Piece
from clearhead.tokens.tokenizer import TextTokenizer
from clearhead.tracing.choosing import integer, integers
from clearhead.tracing.finding import occurrences
from clearhead.tracing.layer_trace import LayerTrace
from clearhead.tracing.sources import (
    Measure,
    Sources,
    measure_sources,
    segment_names,
    segment_shares,
)

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
class Trace:
    """One sequence, as a model's attention saw it: no padding, no batch axis.

    ``trace[5]`` is layer 5. Q, K, V and L of every layer are kept; every row, tile, map and
    statistic of S and A is made from them when asked, exactly.

    Attributes:
        model_name: the model.
        weights_origin: where its weights come from and in what precision.
        token_ids: the tokens by number.
        pieces: the tokens as shown.
        by_layer: what is known of each traced layer.
        queries: positions whose Q and L were kept.
        nbytes: bytes that the trace holds.
        seconds: how long the model ran.
        context_length: positions the model was made for, or None.
        next_logits: the model's logits after the last token, or None without such a head.
        tokenizer: the tokenizer, or None.
    """

    model_name: str
    weights_origin: str
    token_ids: tuple[int, ...]
    pieces: tuple[Piece, ...]
    by_layer: dict[int, LayerTrace]
    queries: Int[Tensor, "r"]
    nbytes: int
    seconds: float
    context_length: int | None
    next_logits: Float[Tensor, "vocabulary"] | None
    tokenizer: TextTokenizer | None

    @property
    def tokens(self) -> tuple[str, ...]:
        """The tokens as shown; one that holds part of a character shows it whole: ``é[1/2]``."""
        return tuple(piece.label for piece in self.pieces)

    @property
    def layers(self) -> tuple[int, ...]:
        """The traced layers."""
        return tuple(self.by_layer)

    @property
    def heads(self) -> int:
        """Query heads of a layer, the most of any layer."""
        return max(layer.query.shape[0] for layer in self.by_layer.values())

    @property
    def dense_nbytes(self) -> int:
        """Bytes that A alone would take for the traced layers, stored whole in the run's dtype."""
        return sum(
            layer.query.shape[0] * len(self) ** 2 * layer.query.element_size()
            for layer in self.by_layer.values()
        )

    @cached_property
    def causal(self) -> bool:
        """Whether no token could look at a later one, in any traced layer. Read from the masks."""
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

    def find(self, token: int | str) -> int:
        """The token that an index or a word means; a word that occurs several times means its last.

        Args:
            token: an index, negative from the end, or a word.

        Raises:
            TokenError: there is no such token; lists those there are.
        """
        return occurrences(token, self.pieces)[-1]

    def sources(
        self,
        token: int | str = -1,
        *,
        by: Measure = "contribution",
        layers: Collection[int] | slice | None = None,
        top: int = 10,
        segments: Mapping[str, tuple[int, int]] | None = None,
    ) -> Sources:
        """Where one token drew from, summed over layers and heads.

        Args:
            token: an index or a word; the default is the last token.
            by: ``"contribution"`` (the length of what each position brought) or ``"attention"``.
            layers: which traced layers to sum, by number or as a slice of them; None is all.
            top: how many links to name.
            segments: named runs of positions, (first, last + 1), to sum as well.

        Returns:
            Shares that sum to 1, and the strongest links.

        Raises:
            TokenError: there is no such token.
            InputError: ``layers`` holds no layers' numbers, or ``by`` names no measure.
            NotKeptError: the token's row or a layer was not kept, or W_O is not known.
        """
        places = occurrences(token, self.pieces)
        numbered = (
            self.layers if layers is None else integers(layers, of=self.layers, name="layers")
        )
        chosen = {layer: self[layer] for layer in numbered}
        found = measure_sources(chosen, row=self._row(places[-1]), by=by, top=top)
        share = found.share
        return Sources(
            target=places[-1],
            target_occurrences=len(places),
            by=by,
            share=share,
            strongest=found.strongest,
            first_token_attention=found.first_token_attention,
            tokens=self.tokens,
            layers=tuple(chosen),
            segments=None if segments is None else segment_shares(share, segments),
            segment_of=None if segments is None else segment_names(len(self), segments),
        )

    def __getitem__(self, layer: int) -> LayerTrace:
        number, known = integer(layer), f"this trace holds layers {_runs(self.layers)}"
        if number is None or number < 0:
            raise InputError(
                f"a layer is asked for by its number, counted from 0 ({known}), got {layer!r}"
            )
        if number not in self.by_layer:
            raise NotKeptError(
                f"layer {number} was not traced ({known}): "
                f"trace again with layers=[{number}, …] or layers=None, if the model has it"
            )
        return self.by_layer[number]

    def __iter__(self) -> Iterator[LayerTrace]:
        return iter(self.by_layer.values())

    def __len__(self) -> int:
        return len(self.token_ids)

    def __repr__(self) -> str:
        return (
            f"Trace({self.model_name!r}, {len(self)} tokens, layers {_runs(self.layers)}, "
            f"{self.nbytes:,} bytes)"
        )

    def _row(self, position: int) -> int:
        rows = numbers((self.queries == position).nonzero().flatten())
        if not rows:
            raise NotKeptError(
                f"the row of token {position} was not kept (queries= kept {len(self.queries)} of "
                f"{len(self)}): trace again with queries=None or a slice that holds it"
            )
        return rows[0]

    def _spelled(self, number: int) -> str:
        if self.tokenizer is None:
            return str(number)
        return self.tokenizer.pieces([number])[0].label


def _is_causal(layer: LayerTrace, tokens: int) -> bool:
    rule = layer.recorded.of_all
    if rule.mask is None or isinstance(rule.mask, Full):
        return False
    for rows in row_blocks(tokens):
        beyond = range(rows.stop, tokens)
        if len(beyond) and rule.verdict(rows, beyond) is not Verdict.NONE:
            return False
        tile = rule.visible(rows, rows, device=torch.device("cpu"))
        assert tile is not None
        if bool(tile.cpu().triu(1).any()):
            return False
    return True


def _runs(numbers: Sequence[int]) -> str:
    """Numbers as a person writes them: 0–5, 9."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}–{run[-1]}" for run in runs)
