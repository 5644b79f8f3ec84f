"""Where one token drew from: which positions' vectors its heads read, and how much each brought."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from clearhead.errors import InputError, UnsupportedError
from clearhead.tracing.layer_trace import LayerTrace, unknown_projection

if TYPE_CHECKING:
    import pandas  # pyright: ignore[reportMissingTypeStubs]  it has types, and no mark that says so

__all__ = [
    "Measure",
    "Measured",
    "Sources",
    "Strongest",
    "head_norms",
    "measure_sources",
    "segment_names",
    "segment_shares",
]

Measure = Literal["contribution", "attention"]

#: What lies in no segment.
ELSEWHERE = "elsewhere"


@dataclass(frozen=True, slots=True)
class Strongest:
    """One strong link: a head of a layer that read one position.

    Attributes:
        layer: the layer.
        head: the head.
        source: the position whose vector was read.
        weight: A[target, source] in this head.
        contribution: ‖A · v_source · W_O^h‖; NaN where W_O is not known.
        share: this link's part of the sum that makes all shares.
    """

    layer: int
    head: int
    source: int
    weight: float
    contribution: float
    share: float


@dataclass(frozen=True, eq=False, slots=True)
class Measured:
    """One token's links, summed over layers and heads.

    Attributes:
        share: each position's share; sums to 1.
        strongest: the strongest links, strongest first.
        first_token_attention: mean over layers and heads of the weight on the first token.
    """

    share: Float[Tensor, "m"]
    strongest: tuple[Strongest, ...]
    first_token_attention: float


@dataclass(frozen=True, eq=False)
class Sources:
    """The sources of one token over the chosen layers and all their heads.

    A share says which *position's* vector was read, not which input token it came from, and a
    weight is not an explanation: what would change if the link were cut was not measured here.

    Attributes:
        target: the token whose sources these are, by its place in its own sequence.
        target_occurrences: how many tokens the caller's word could have meant; the last was taken.
        by: ``"contribution"`` or ``"attention"``.
        share: each position's share; sums to 1.
        strongest: the strongest links, strongest first.
        first_token_attention: mean over layers and heads of the weight on the first token.
        tokens: the tokens that could be drawn from, as shown; in cross-attention those of the
            source, else the sequence's own.
        layers: the layers that were summed.
        segments: share of each named segment and of what lies ``"elsewhere"``, or None.
        segment_of: each position's segment, or None; where segments overlap, their names joined.
    """

    target: int
    target_occurrences: int
    by: Measure
    share: Float[Tensor, "m"]
    strongest: tuple[Strongest, ...]
    first_token_attention: float
    tokens: tuple[str, ...]
    layers: tuple[int, ...]
    segments: dict[str, float] | None = None
    segment_of: tuple[str, ...] | None = None

    def to_pandas(self) -> "pandas.DataFrame":
        """A table with one row a position: position, token, share, and segment where one was given.

        Raises:
            UnsupportedError: pandas is not installed.
        """
        try:
            # it has types, and no mark that says so
            import pandas  # pyright: ignore[reportMissingTypeStubs]
        except ImportError as error:
            raise UnsupportedError(
                "to_pandas needs pandas: install it with pip install 'clearhead[pandas]'"
            ) from error
        columns: dict[str, Sequence[object]] = {
            "position": range(len(self.tokens)),
            "token": self.tokens,
            "share": self.share.numpy(force=True).tolist(),
        }
        if self.segment_of is not None:
            columns["segment"] = self.segment_of
        return pandas.DataFrame(columns)


def measure_sources(
    layers: Mapping[int, LayerTrace],
    *,
    row: int,
    by: Measure,
    top: int,
) -> Measured:
    """Sum one token's links over layers and heads.

    ``share[j] = Σ_{l,h} ‖A[i, j] · v_j · W_O‖ / Σ_{l,h,j} …``, or the same with A[i, j] alone.

    Args:
        layers: the chosen layers.
        row: the token's place among the kept queries.
        by: what is summed.
        top: how many links to name.

    Returns:
        The shares, the strongest links, and the mean weight on the first token.

    Raises:
        InputError: ``by`` names no measure, or there are no layers.
        NotKeptError: contributions were asked for where W_O is not known.

    Cost: one row of A a head and layer.

    Source: Kobayashi et al. 2020, "Attention is Not Only a Weight", equation 3 (‖αf(x)‖ with
    f(x) = v·W_O).
    """
    if by not in ("contribution", "attention"):
        raise InputError(f"by must be 'contribution' or 'attention', got {by!r}")
    if not layers:
        raise InputError("layers must name at least one layer to sum, got none")
    # layers need not have the same number of heads: their heads stand below each other
    heads = [(number, head) for number, layer in layers.items() for head in range(_heads(layer))]
    weights = torch.cat([layer.weights[:, row] for layer in layers.values()]).double()
    norms = [head_norms(layer, required=by == "contribution") for layer in layers.values()]
    contributions = weights * torch.cat(norms).double()
    measured = contributions if by == "contribution" else weights
    total = measured.sum().clamp(min=torch.finfo(torch.float64).tiny)
    strongest = _strongest(heads, weights, contributions, measured / total, top=top)
    return Measured(
        share=(measured.sum(0) / total).float(),
        strongest=strongest,
        first_token_attention=float(weights[:, 0].mean()),
    )


def _heads(layer: LayerTrace) -> int:
    return layer.query.shape[0]


def head_norms(layer: LayerTrace, *, required: bool) -> Float[Tensor, "heads m"]:
    """‖v · W_O‖ of a layer's heads; NaN where W_O is not known.

    Args:
        layer: the layer.
        required: refuse where it is not known.

    Raises:
        NotKeptError: it is required and not known.
    """
    if layer.projection is not None:
        return layer.value_norms
    if required:
        raise unknown_projection(layer, "contributions")
    return torch.full((_heads(layer), layer.key.shape[1]), torch.nan, device=layer.key.device)


def _strongest(
    heads: Sequence[tuple[int, int]],
    weights: Float[Tensor, "all_heads m"],
    contributions: Float[Tensor, "all_heads m"],
    shares: Float[Tensor, "all_heads m"],
    *,
    top: int,
) -> tuple[Strongest, ...]:
    found = shares.flatten().topk(min(max(top, 0), shares.numel()))
    links: list[Strongest] = []
    for share, place in zip(found.values, found.indices, strict=True):
        row, source = divmod(int(place), shares.shape[1])
        layer, head = heads[row]
        links.append(
            Strongest(
                layer=layer,
                head=head,
                source=source,
                weight=float(weights[row, source]),
                contribution=float(contributions[row, source]),
                share=float(share),
            )
        )
    return tuple(link for link in links if link.share > 0)


def segment_shares(
    share: Float[Tensor, "m"], segments: Mapping[str, tuple[int, int]]
) -> dict[str, float]:
    """Sum the shares of named runs of positions.

    Args:
        share: share of each position.
        segments: first and last-plus-one position by name.

    Returns:
        The share of each segment, and of everything outside them as ``"elsewhere"``.

    Raises:
        InputError: a segment does not lie inside the sequence, or takes the name of the rest.
    """
    for name, (start, stop) in segments.items():
        if name == ELSEWHERE or not 0 <= start <= stop <= len(share):
            raise InputError(
                f"a segment must lie in [0, {len(share)}] and not be called {ELSEWHERE!r}, "
                f"got {name!r}: ({start}, {stop})"
            )
    sums = {name: float(share[start:stop].sum()) for name, (start, stop) in segments.items()}
    outside = [name == ELSEWHERE for name in segment_names(len(share), segments)]
    return {**sums, ELSEWHERE: float(share[torch.tensor(outside)].sum())}


def segment_names(positions: int, segments: Mapping[str, tuple[int, int]]) -> tuple[str, ...]:
    """The segment of each position.

    Args:
        positions: how many there are.
        segments: first and last-plus-one position by name.

    Returns:
        A name a position, several joined by a comma where segments overlap.
    """
    names: list[list[str]] = [[] for _ in range(positions)]
    for name, (start, stop) in segments.items():
        for place in range(start, stop):
            names[place].append(name)
    return tuple(", ".join(found) or ELSEWHERE for found in names)
