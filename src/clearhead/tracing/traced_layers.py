"""What traces of one sequence and of two have alike: layers by number, tokens, sources."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from jaxtyping import Int
from torch import Tensor

from clearhead.errors import InputError, NotKeptError
from clearhead.masks.places import numbers
from clearhead.tokens.pieces import Piece
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

__all__ = ["TracedLayers", "labels", "listed"]


@dataclass(frozen=True, eq=False, repr=False)
class TracedLayers:
    """Attention layers by number, the rows of whose matrices are one sequence's tokens.

    Attributes:
        model_name: the model.
        pieces: the tokens as shown: the rows.
        by_layer: what is known of each traced layer.
        queries: positions whose Q and L were kept.
        nbytes: bytes that the trace holds.
    """

    model_name: str
    pieces: tuple[Piece, ...]
    by_layer: dict[int, LayerTrace]
    queries: Int[Tensor, "r"]
    nbytes: int

    @property
    def tokens(self) -> tuple[str, ...]:
        """The tokens as shown; one that holds part of a character shows it whole: ``é[1/2]``."""
        return labels(self.pieces)

    @property
    def columns(self) -> tuple[Piece, ...]:
        """The tokens that were looked at: the columns of the matrices."""
        return self.pieces

    @property
    def layers(self) -> tuple[int, ...]:
        """The traced layers."""
        return tuple(self.by_layer)

    @property
    def heads(self) -> int:
        """Query heads of a layer, the most of any layer."""
        return max((layer.query.shape[0] for layer in self.by_layer.values()), default=0)

    @property
    def dense_nbytes(self) -> int:
        """Bytes that A alone would take for the traced layers, stored whole in the run's dtype."""
        entries = len(self) * len(self.columns)
        return sum(
            layer.query.shape[0] * entries * layer.query.element_size()
            for layer in self.by_layer.values()
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
            segments: named runs of the positions that were looked at, (first, last + 1), to sum as
                well.

        Returns:
            Shares of the tokens that were looked at, which sum to 1, and the strongest links.

        Raises:
            TokenError: there is no such token.
            InputError: ``layers`` holds no layers' numbers, or ``by`` names no measure.
            NotKeptError: the token's row or a layer was not kept, or W_O is not known.
        """
        places, looked_at = occurrences(token, self.pieces), labels(self.columns)
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
            tokens=looked_at,
            layers=tuple(chosen),
            segments=None if segments is None else segment_shares(share, segments),
            segment_of=None if segments is None else segment_names(len(looked_at), segments),
        )

    def __getitem__(self, layer: int) -> LayerTrace:
        number, known = integer(layer), f"this trace holds {listed(self.layers)}"
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
        return len(self.pieces)

    def _row(self, position: int) -> int:
        rows = numbers((self.queries == position).nonzero().flatten())
        if not rows:
            raise NotKeptError(
                f"the row of token {position} was not kept (queries= kept {len(self.queries)} of "
                f"{len(self)}): trace again with queries=None or a slice that holds it"
            )
        return rows[0]


def labels(pieces: Sequence[Piece]) -> tuple[str, ...]:
    """Tokens as a person reads them.

    Args:
        pieces: the tokens.
    """
    return tuple(piece.label for piece in pieces)


def listed(layers: Sequence[int]) -> str:
    """Layers as a person writes them: ``layers 0–5, 9``.

    Args:
        layers: their numbers, in order.
    """
    runs: list[list[int]] = []
    for number in layers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    written = [str(run[0]) if len(run) == 1 else f"{run[0]}–{run[-1]}" for run in runs]
    return f"layers {', '.join(written)}" if written else "no layers"
