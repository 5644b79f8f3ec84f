"""How quickly each pair of a rotary embedding turns: the stretchings, worked out in float32.

Everything here is in the order of operations of the released models, so that float32 rounds as it
does there.
"""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from clearhead.positions.kinds import Rotary
from clearhead.positions.scaling import (
    DynamicScaling,
    LinearScaling,
    Llama3Scaling,
    LongRopeScaling,
    YarnScaling,
)

__all__ = ["frequencies"]


def frequencies(
    rotary: Rotary,
    *,
    width: int,
    lengths: Int[Tensor, "rows"] | None = None,
    device: torch.device | None = None,
) -> Float[Tensor, "*rows pairs"]:
    """Angle by which each pair turns from one position to the next, in float32.

    ``θ_p = theta^(−2p / width)``, stretched as the scaling says.

    Args:
        rotary: base and scaling.
        width: how many of a head's numbers turn.
        lengths: tokens of each text, used only where frequencies depend on the length; None is any
            length within the original context.
        device: where the result lies, and ``lengths`` too; None is the CPU.

    Returns:
        θ_p for p = 0 … width/2 − 1; one row a text where they depend on its length.
    """
    exponents = torch.arange(0, width, 2, dtype=torch.float32, device=device) / width
    periods = rotary.theta**exponents
    match rotary.scaling:
        case None:
            return 1.0 / periods
        case LinearScaling(factor):
            return 1.0 / periods / factor
        case Llama3Scaling() as scaling:
            return _blended_by_turns(1.0 / periods, scaling)
        case YarnScaling() as scaling:
            return _blended_by_place(periods, scaling, theta=rotary.theta)
        case LongRopeScaling() as scaling:
            return _by_pair(periods, scaling, lengths)
        case DynamicScaling() as scaling:
            return _grown(rotary.theta, scaling, exponents, lengths)


def _grown(
    theta: float,
    scaling: DynamicScaling,
    exponents: Float[Tensor, "pairs"],
    lengths: Int[Tensor, "rows"] | None,
) -> Float[Tensor, "*rows pairs"]:
    if lengths is None:
        return 1.0 / theta**exponents
    # One text at a time: PyTorch's power rounds differently with the shape it is given, and a
    # text's frequencies must not depend on how many stand beside it.
    rows = [_grown_to(length, scaling, exponents, theta=theta) for length in lengths.unbind()]
    return torch.stack(rows) if rows else exponents.new_empty(0, len(exponents))


def _grown_to(
    length: Int[Tensor, ""],
    scaling: DynamicScaling,
    exponents: Float[Tensor, "pairs"],
    *,
    theta: float,
) -> Float[Tensor, "pairs"]:
    """Frequencies of one text, its base grown if it is a long one."""
    factor, original, width = scaling.factor, scaling.original_context, 2 * len(exponents)
    beyond = length.clamp(min=original).float()
    growth = (factor * beyond / original - (factor - 1)) ** (width / (width - 2))
    grown = 1.0 / (theta * growth) ** exponents
    return torch.where(length > original, grown, 1.0 / theta**exponents)


def _by_pair(
    periods: Float[Tensor, "pairs"],
    scaling: LongRopeScaling,
    lengths: Int[Tensor, "rows"] | None,
) -> Float[Tensor, "*rows pairs"]:
    short, long = (
        1.0 / (torch.tensor(factors, dtype=torch.float32, device=periods.device) * periods)
        for factors in (scaling.short_factors, scaling.long_factors)
    )
    if lengths is None:
        return short
    return torch.where((lengths > scaling.original_context)[:, None], long, short)


def _blended_by_turns(
    quick: Float[Tensor, "pairs"], scaling: Llama3Scaling
) -> Float[Tensor, "pairs"]:
    low, high = scaling.low_frequency_factor, scaling.high_frequency_factor
    wavelengths = 2 * math.pi / quick
    blend = (scaling.original_context / wavelengths - low) / (high - low)
    between = (1 - blend) * quick / scaling.factor + blend * quick
    is_slow = wavelengths > scaling.original_context / low
    is_quick = wavelengths < scaling.original_context / high
    stretched = torch.where(is_slow, quick / scaling.factor, between)
    return torch.where(is_quick, quick, stretched)


def _blended_by_place(
    periods: Float[Tensor, "pairs"], scaling: YarnScaling, *, theta: float
) -> Float[Tensor, "pairs"]:
    low, high = _blend_ends(scaling, theta=theta, width=2 * len(periods))
    places = torch.arange(len(periods), dtype=torch.float32, device=periods.device)
    kept = 1 - ((places - low) / (high - low)).clamp(0, 1)
    stretched = 1.0 / (scaling.factor * periods)
    return stretched * (1 - kept) + 1.0 / periods * kept


def _blend_ends(scaling: YarnScaling, *, theta: float, width: int) -> tuple[float, float]:
    """Places, in pairs, where the blend begins and where it ends."""

    def place(turns: float) -> float:
        """Where the pair stands that turns so often in the original context."""
        context = scaling.original_context
        return (width * math.log(context / (turns * 2 * math.pi))) / (2 * math.log(theta))

    low, high = place(scaling.beta_fast), place(scaling.beta_slow)
    if scaling.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, width - 1)
    return low, high + 0.001 if low == high else high  # as released: a blend of no width is a step
