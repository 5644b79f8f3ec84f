"""Rotary positions: queries and keys are turned by an angle that grows with their position.

A head's d_k numbers are taken as d_k/2 pairs, number p with number p + d_k/2, and each pair is
turned like the hand of a clock: the first pair quickest, the last one slowest. A dot product of two
turned vectors depends on their content and on the *distance* between them, not on where they stand.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from clearhead.errors import InputError, gathered
from clearhead.positions.scaling import LinearScaling, Llama3Scaling, RotaryScaling

__all__ = ["Phases", "RotaryEmbedding", "rotate"]


@dataclass(frozen=True)
class RotaryEmbedding:
    """Turns pair p of a vector at position i by the angle ``i · θ_p``.

    ``θ_p = theta^(−2p / d_k)``, stretched as ``scaling`` says.

    A value without tensors: a model's dtype cannot reach its frequencies, which are float32 always.
    In bfloat16 position 15,962 would read 15,936, whose cosine is -0.27 where −0.91 is right.

    Attributes:
        d_k: width of a head; even.
        theta: base of the frequencies; larger turns the slow pairs slower.
        scaling: how the frequencies are stretched; None is not at all.

    Raises:
        InputError: ``d_k`` is not even or ``theta`` not positive.

    Source: Su et al. 2021, "RoFormer: Enhanced Transformer with Rotary Position Embedding", section
    3.2.2. Pairs are (p, p + d_k/2) as in released Llama weights, where the paper has (2p, 2p + 1).
    """

    d_k: int
    theta: float = 10_000.0
    scaling: RotaryScaling | None = None

    def __post_init__(self) -> None:
        faults: list[str] = []
        if self.d_k < 2 or self.d_k % 2:
            faults.append(f"d_k must be even and positive, got {self.d_k}: numbers turn in pairs")
        if not 0 < self.theta < math.inf:
            faults.append(f"theta must be positive and finite, got {self.theta}")
        if faults:
            raise InputError(gathered("RotaryEmbedding", faults))

    def frequencies(self, device: torch.device | None = None) -> Float[Tensor, "pairs"]:
        """Angle by which each pair turns from one position to the next, in float32.

        Args:
            device: where the result lies; None is the CPU.

        Returns:
            θ_p for p = 0 … d_k/2 − 1.
        """
        exponents = torch.arange(0, self.d_k, 2, dtype=torch.float32, device=device) / self.d_k
        return _stretched(1.0 / self.theta**exponents, self.scaling)

    def phases(self, positions: Int[Tensor, "#batch n"], *, dtype: torch.dtype) -> "Phases":
        """Cosine and sine of every angle, once for all layers and heads.

        Args:
            positions: absolute position of each token.
            dtype: dtype of the queries and keys to turn; angles are float32 whatever it is.

        Returns:
            The phases, rounded to ``dtype`` only after cosine and sine.

        Cost: n · d_k numbers a batch row.
        """
        angles = positions[..., None].float() * self.frequencies(positions.device)
        return Phases(
            cosine=angles.cos().to(dtype).unsqueeze(1),
            sine=angles.sin().to(dtype).unsqueeze(1),
        )


@dataclass(frozen=True, eq=False)
class Phases:
    """Cosine and sine of the angle of each pair at each position, the same for every head."""

    cosine: Float[Tensor, "#batch 1 n pairs"]
    sine: Float[Tensor, "#batch 1 n pairs"]


def rotate(
    x: Float[Tensor, "batch heads n d_k"], phases: Phases | None
) -> Float[Tensor, "batch heads n d_k"]:
    """Turn every pair of every head by the angle of its position.

    ``x'_p = x_p · cos − x_{p+d/2} · sin`` and ``x'_{p+d/2} = x_{p+d/2} · cos + x_p · sin``

    Args:
        x: queries or keys.
        phases: the angles of their positions; None turns nothing.

    Returns:
        x turned; lengths of pairs are kept.
    """
    if phases is None:
        return x
    first, second = x.chunk(2, dim=-1)
    return torch.cat(
        (
            first * phases.cosine - second * phases.sine,
            second * phases.cosine + first * phases.sine,
        ),
        dim=-1,
    )


def _stretched(
    frequencies: Float[Tensor, "pairs"], scaling: RotaryScaling | None
) -> Float[Tensor, "pairs"]:
    match scaling:
        case None:
            return frequencies
        case LinearScaling(factor):
            return frequencies / factor
        case Llama3Scaling():
            return _blended(frequencies, scaling)


def _blended(frequencies: Float[Tensor, "pairs"], scaling: Llama3Scaling) -> Float[Tensor, "pairs"]:
    low, high = scaling.low_frequency_factor, scaling.high_frequency_factor
    wavelengths = 2 * math.pi / frequencies
    blend = (scaling.original_context / wavelengths - low) / (high - low)
    # Written in the order of the released models, so that float32 rounds as it does there.
    between = (1 - blend) * frequencies / scaling.factor + blend * frequencies
    slow = wavelengths > scaling.original_context / low
    quick = wavelengths < scaling.original_context / high
    stretched = torch.where(slow, frequencies / scaling.factor, between)
    return torch.where(quick, frequencies, stretched)
