"""The named masks that are arithmetic on positions: causal, sliding window, prefix-LM, chunked."""

from dataclasses import dataclass
from typing import final

from torch import Tensor

from clearhead.masks.mask import Mask
from clearhead.masks.node import Verdict
from clearhead.masks.places import Selection

__all__ = ["Causal", "causal_mask"]


@final
@dataclass(frozen=True)
class Causal(Mask):
    """A position may look at itself and at what came before: ``j <= i``."""

    def __repr__(self) -> str:
        return "causal_mask()"

    @property
    def positional(self) -> bool:
        """It is."""
        return True

    @property
    def band(self) -> tuple[float, float]:
        """``0 <= i - j``."""
        return 0, float("inf")

    def predicate(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        """Compare positions."""
        del b, h
        return j <= i

    def settle(self, rows: range, columns: range) -> Verdict:
        """Judge by the nearest corners."""
        if columns.stop - 1 <= rows.start:
            return Verdict.ALL
        return Verdict.NONE if columns.start >= rows.stop else Verdict.MIXED


def causal_mask() -> Causal:
    """Let each position look at itself and at what came before it.

    ``mask(i, j) = j <= i``

    Returns:
        The mask.

    Example:
        >>> causal_mask().to_dense(queries=3, keys=3).int()[0, 0].tolist()
        [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    """
    return Causal()
