"""ALiBi and T5's relative bias: what is added to a score because of how far its key stands away."""

import math
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from clearhead.errors import InputError, gathered
from clearhead.positions.position_bias import RelativeBias

__all__ = ["AlibiBias", "T5RelativeBias"]


@final
@dataclass(frozen=True)
class AlibiBias(RelativeBias):
    """ALiBi: a score falls with the distance, in each head at a slope of its own.

    ``bias[h, i, j] = −slope_h · |i − j|``, and for H heads, a power of two, ``slope_h = 2^(−8h/H)``
    with h = 1 … H. For another H the slopes are those of the next lower power of two P, and then
    every second one of 2P, beginning with the first, as in the released models.

    Where a query looks back only, this is the paper's ``slope · (j − i)``. Where it also looks
    ahead, later keys lose as much as earlier ones: the paper says nothing of them. Released models
    (BLOOM's ``build_alibi_tensor``) add ``slope · j``, which differs by one number a row; softmax
    does not see it, so A and C are the same, and L is larger there by ``slope · i``.

    Attributes:
        heads: number of heads.

    Raises:
        InputError: there is no head.

    Source: Press, Smith and Lewis 2022, "Train Short, Test Long: Attention with Linear Biases
    Enables Input Length Extrapolation", section 3; other head counts by its released code.
    """

    heads: int

    def __post_init__(self) -> None:
        if self.heads < 1:
            raise InputError(f"AlibiBias: heads must be at least 1, got {self.heads}")

    @property
    def slopes(self) -> tuple[float, ...]:
        """How much a score falls from one position to the next, head by head."""
        power = 2 ** (self.heads.bit_length() - 1)
        lower = [2.0 ** (-8 * h / power) for h in range(1, power + 1)]
        between = [2.0 ** (-4 * h / power) for h in range(1, 2 * power, 2)]
        return tuple((lower + between)[: self.heads])

    @property
    def masking(self) -> bool:
        """Never: its numbers are finite."""
        return False

    def at(
        self,
        distances: Int[Tensor, "*distances"],
        *,
        heads: Int[Tensor, "chosen"] | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> Float[Tensor, "chosen *distances"]:
        """``−slope_h · |j − i|`` at each distance ``j − i``."""
        slopes = torch.tensor(self.slopes, dtype=dtype, device=distances.device)
        if heads is not None:
            slopes = slopes[heads.to(slopes.device)]
        return -slopes.view(len(slopes), *[1] * distances.ndim) * distances.abs().to(dtype)


@final
class T5RelativeBias(nn.Module, RelativeBias):
    """T5's relative bias: a learned number a head for each bucket of distances.

    ``bias[h, i, j] = weight[bucket(j − i), h]``. Small distances d have a bucket each, larger ones
    share buckets that grow with them: with B buckets a direction, E = ⌊B/2⌋ and M = max_distance,

    ``bucket(d) = d`` for d < E, else ``min(E + ⌊ln(d/E) / ln(M/E) · (B − E)⌋, B − 1)``, in float32.

    ``bidirectional`` gives keys after the query the upper half of the buckets; else they count as
    distance 0. T5 adds it to unscaled scores (``scale=1``), and to none of cross-attention.

    Args:
        heads: number of heads.
        buckets: rows of the table.
        max_distance: from here on all distances share one bucket.
        bidirectional: tell keys after the query from those before it, as an encoder does.

    Attributes:
        weight: the table, (buckets, heads); zeros until it is learned or loaded.

    Raises:
        InputError: the numbers do not make buckets; all faults at once.

    Source: Raffel et al. 2020, "Exploring the Limits of Transfer Learning with a Unified
    Text-to-Text Transformer", section 2.1; the formula of a bucket by Mesh TensorFlow's code.
    """

    def __init__(
        self,
        heads: int,
        *,
        buckets: int = 32,
        max_distance: int = 128,
        bidirectional: bool = True,
    ) -> None:
        super().__init__()
        faults: list[str] = []
        if heads < 1:
            faults.append(f"heads must be at least 1, got {heads}")
        least = 4 if bidirectional else 2
        if buckets < least or (bidirectional and buckets % 2):
            both = "even and at least 4, half of them a direction"
            what = both if bidirectional else "at least 2"
            faults.append(f"buckets must be {what}, got {buckets}")
        elif max_distance <= buckets // least:
            several = f"the {buckets // least} distances that have a bucket each"
            faults.append(f"max_distance must be more than {several}, got {max_distance}")
        if faults:
            raise InputError(gathered("T5RelativeBias", faults))
        self.heads = heads
        self.buckets = buckets
        self.max_distance = max_distance
        self.bidirectional = bidirectional
        self.weight = nn.Parameter(torch.zeros(buckets, heads))

    @property
    def requires_grad(self) -> bool:
        """Whether the table is being learned."""
        return self.weight.requires_grad

    @property
    def masking(self) -> bool:
        """Whether −inf stands in the table; not read while compiling, where it counts as yes."""
        return torch.compiler.is_compiling() or bool(torch.isneginf(self.weight).any())

    def bucket(self, distances: Int[Tensor, "*distances"]) -> Int[Tensor, "*distances"]:
        """The bucket of each distance ``j − i``."""
        count, first = self.buckets, 0
        away = (-distances).clamp(min=0)
        if self.bidirectional:
            count = count // 2
            first = (distances > 0).long() * count
            away = distances.abs()
        exact = count // 2
        # in the order of the released models, so that float32 rounds as it does there
        log = torch.log(away.clamp(min=exact).float() / exact) / math.log(self.max_distance / exact)
        far = (exact + (log * (count - exact)).long()).clamp(max=count - 1)
        return first + torch.where(away < exact, away, far)

    def at(
        self,
        distances: Int[Tensor, "*distances"],
        *,
        heads: Int[Tensor, "chosen"] | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> Float[Tensor, "chosen *distances"]:
        """The table's numbers at each distance ``j − i``."""
        table = self.weight.T.to(dtype)
        if heads is not None:
            table = table[heads.to(table.device)]
        buckets = self.bucket(distances.to(table.device))
        return table.index_select(1, buckets.flatten()).view(len(table), *buckets.shape)

    def extra_repr(self) -> str:
        """What it was made with."""
        return (
            f"heads={self.heads}, buckets={self.buckets}, max_distance={self.max_distance}, "
            f"bidirectional={self.bidirectional}"
        )
