"""Where one token drew from: which positions' vectors its heads read, and how much each brought."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from clearhead.errors import InputError, UnsupportedError
from clearhead.tracing.layer_trace import LayerTrace

if TYPE_CHECKING:
    import pandas

__all__ = ["Measure", "Sources", "Strongest", "measure_sources"]

Measure = Literal["contribution", "attention"]


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


@dataclass(frozen=True, eq=False)
class Sources:
    """The sources of one token over the chosen layers and all their heads.

    A share says which *position's* vector was read, not which input token it came from, and a weight is
    not an explanation: what would change if the link were cut was not measured here.

    Attributes:
        target: the token whose sources these are.
        target_occurrences: how many tokens the caller's word could have meant; the last was taken.
        by: ``"contribution"`` or ``"attention"``.
        share: each position's share; sums to 1.
        strongest: the strongest links, strongest first.
        first_token_attention: mean over layers and heads of the weight on the first token.
        tokens: the tokens as shown.
        layers: the layers that were summed.
        segments: share of each named segment, or None.
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

    def to_pandas(self) -> "pandas.DataFrame":
        """A table with one row a position: position, token, share (and segment).

        Raises:
            UnsupportedError: pandas is not installed.
        """
        try:
            import pandas
        except ImportError as error:
            raise UnsupportedError(
                "to_pandas needs pandas: install it with pip install 'clearhead[pandas]'"
            ) from error
        columns = {
            "position": range(len(self.tokens)),
            "token": self.tokens,
            "share": self.share.tolist(),
        }
        return pandas.DataFrame(columns)


def measure_sources(
    layers: Mapping[int, LayerTrace],
    *,
    row: int,
    by: Measure,
    top: int,
) -> tuple[Float[Tensor, "m"], tuple[Strongest, ...], float]:
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
        InputError: ``by`` names no measure.
        NotKeptError: contributions were asked for where W_O is not known.

    Cost: one row of A a head and layer.

    Source: Kobayashi et al. 2020, "Attention is Not Only a Weight", equation 3 (‖αf(x)‖ with f(x) = v·W_O).
    """
    if by not in ("contribution", "attention"):
        raise InputError(f"by must be 'contribution' or 'attention', got {by!r}")
    weights = torch.stack([layer.weights[:, row] for layer in layers.values()]).double()
    norms = [_norms(layer, required=by == "contribution") for layer in layers.values()]
    contributions = weights * torch.stack(norms).double()
    measured = contributions if by == "contribution" else weights
    total = measured.sum().clamp(min=torch.finfo(torch.float64).tiny)
    strongest = _strongest(tuple(layers), weights, contributions, measured / total, top=top)
    share = measured.sum((0, 1)) / total
    return share.float(), strongest, float(weights[..., 0].mean())


def _norms(layer: LayerTrace, *, required: bool) -> Tensor:
    if layer.projection is None and not required:
        heads, keys = layer.query.shape[0], layer.key.shape[1]
        return torch.full((heads, keys), torch.nan)
    return layer.value_norms


def _strongest(
    layers: Sequence[int],
    weights: Tensor,
    contributions: Tensor,
    shares: Tensor,
    *,
    top: int,
) -> tuple[Strongest, ...]:
    found = shares.flatten().topk(min(top, shares.numel()))
    links: list[Strongest] = []
    for share, place in zip(found.values.tolist(), found.indices.tolist(), strict=True):
        layer, head, source = (
            int(i) for i in torch.unravel_index(torch.tensor(place), shares.shape)
        )
        links.append(
            Strongest(
                layer=layers[layer],
                head=head,
                source=source,
                weight=float(weights[layer, head, source]),
                contribution=float(contributions[layer, head, source]),
                share=share,
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
        InputError: a segment does not lie inside the sequence.
    """
    inside = torch.zeros(len(share), dtype=torch.bool)
    sums: dict[str, float] = {}
    for name, (start, stop) in segments.items():
        if not 0 <= start <= stop <= len(share):
            raise InputError(
                f"segment {name!r} must lie in [0, {len(share)}], got ({start}, {stop})"
            )
        inside[start:stop] = True
        sums[name] = float(share[start:stop].sum())
    sums["elsewhere"] = float(share[~inside].sum())
    return sums
