"""How a rotary embedding is stretched to texts longer than it was trained on, as plain values.

A value here says what is done; :mod:`clearhead.positions.frequencies` does it. A new kind of
stretching is one class here and one case there. Each value refuses numbers that mean nothing.
"""

import math
from dataclasses import dataclass

from clearhead.positions.faults import positive, refuse, whole

__all__ = [
    "DynamicScaling",
    "LinearScaling",
    "Llama3Scaling",
    "LongRopeScaling",
    "RotaryScaling",
    "YarnScaling",
    "longrope_attention_factor",
    "yarn_attention_factor",
]


@dataclass(frozen=True)
class LinearScaling:
    """Every frequency is divided by one factor, as if positions stood closer together.

    ``θ'_p = θ_p / factor``

    Attributes:
        factor: by how much the text may be longer than in training.

    Raises:
        InputError: ``factor`` is not positive.

    Source: Chen et al. 2023, "Extending Context Window of Large Language Models via Positional
    Interpolation", section 2.3.
    """

    factor: float

    def __post_init__(self) -> None:
        refuse(self, positive("factor", self.factor))


@dataclass(frozen=True)
class DynamicScaling:
    """The base grows with the length of the text, so that slow pairs slow down as far as needed.

    ``theta' = theta · (factor · L / original_context − factor + 1)^(width / (width − 2))`` for a
    text of L > original_context tokens; a shorter one is left as it is.

    Frequencies depend on the length, so a text's keys turn anew with every token beyond
    ``original_context``.

    Attributes:
        factor: how quickly the base grows.
        original_context: number of positions the model was trained on.

    Raises:
        InputError: a number is not positive; all faults at once.

    Source: Peng et al. 2023, "YaRN: Efficient Context Window Extension of Large Language Models",
    section 3.3 and appendix A.1 ("Dynamic NTK"), in the form of the released models.
    """

    factor: float
    original_context: int

    def __post_init__(self) -> None:
        faults = positive("factor", self.factor)
        refuse(self, faults + whole("original_context", self.original_context))


@dataclass(frozen=True)
class YarnScaling:
    """Slow pairs are stretched, quick ones kept, those between blended by their place.

    ``θ'_p = b_p · θ_p / factor + (1 − b_p) · θ_p``, where b rises from 0 to 1 in a straight line
    between the pairs that turn ``beta_fast`` and ``beta_slow`` times in the original context. Pair
    p turns r times where ``p = width · ln(original_context / 2πr) / (2 · ln theta)``.

    Attributes:
        factor: by how much the slow pairs are stretched.
        original_context: number of positions the model was trained on before it was stretched.
        attention_factor: what turned queries and keys are multiplied by, each;
            :func:`yarn_attention_factor` says what the paper suggests.
        beta_fast: turns in the original context from which on a pair is kept.
        beta_slow: turns up to which a pair is stretched in full.
        truncate: whether the ends of the blend are moved outwards to whole pairs.

    Raises:
        InputError: a number is not positive, or ``beta_slow`` is not below ``beta_fast``; all
            faults at once.

    Source: Peng et al. 2023, "YaRN: Efficient Context Window Extension of Large Language Models",
    sections 3.2 and 3.4; β and α there are ``beta_fast`` and ``beta_slow``.
    """

    factor: float
    original_context: int
    attention_factor: float
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True

    def __post_init__(self) -> None:
        faults = positive("factor", self.factor)
        faults += whole("original_context", self.original_context)
        faults += positive("attention_factor", self.attention_factor)
        betas = positive("beta_fast", self.beta_fast) + positive("beta_slow", self.beta_slow)
        if not betas and not self.beta_slow < self.beta_fast:
            betas = [f"beta_slow ({self.beta_slow}) must be below beta_fast ({self.beta_fast})"]
        refuse(self, faults + betas)


@dataclass(frozen=True)
class LongRopeScaling:
    """Each pair is stretched by a factor of its own, found by search; long texts have other ones.

    ``θ'_p = θ_p / factors_p`` with ``long_factors`` for a text of more than ``original_context``
    tokens, else ``short_factors``.

    Frequencies depend on the length, so a text's keys turn anew when it outgrows
    ``original_context``.

    Attributes:
        short_factors: one a pair, for texts within the original context.
        long_factors: one a pair, for longer ones.
        original_context: number of positions the model was trained on before it was stretched.
        attention_factor: what turned queries and keys are multiplied by, each, at any length;
            :func:`longrope_attention_factor` says what the paper suggests.

    Raises:
        InputError: a number is not positive, or there are not as many short factors as long ones;
            all faults at once.

    Source: Ding et al. 2024, "LongRoPE: Extending LLM Context Window Beyond 2 Million Tokens",
    section 3, in the form of the released Phi-3 models.
    """

    short_factors: tuple[float, ...]
    long_factors: tuple[float, ...]
    original_context: int
    attention_factor: float

    def __post_init__(self) -> None:
        faults = [
            fault
            for name in ("short_factors", "long_factors")
            for p, factor in enumerate(getattr(self, name))
            for fault in positive(f"{name}[{p}]", factor)
        ]
        short, long = len(self.short_factors), len(self.long_factors)
        if short != long or not short:
            faults.append(
                "short_factors and long_factors must have one number a pair each, "
                f"got {short} and {long}"
            )
        faults += whole("original_context", self.original_context)
        refuse(self, faults + positive("attention_factor", self.attention_factor))


@dataclass(frozen=True)
class Llama3Scaling:
    """Slow pairs are stretched, quick ones kept, those between blended.

    ``θ'_p = (1 − b) · θ_p / factor + b · θ_p`` with wavelength ``λ_p = 2π / θ_p`` and
    ``b = (original_context / λ_p − low) / (high − low)``, cut to [0, 1].

    Attributes:
        factor: by how much the slow pairs are stretched.
        low_frequency_factor: ``low``; pairs with fewer turns in the original context are stretched.
        high_frequency_factor: ``high``; pairs with more turns in the original context are kept.
        original_context: number of positions the model was trained on before it was stretched.

    Raises:
        InputError: a number is not positive, or ``low`` is not below ``high``; all faults at once.

    Source: Grattafiori et al. 2024, "The Llama 3 Herd of Models", and the Llama 3.1 release.
    """

    factor: float
    low_frequency_factor: float
    high_frequency_factor: float
    original_context: int

    def __post_init__(self) -> None:
        low, high = self.low_frequency_factor, self.high_frequency_factor
        ends = positive("low_frequency_factor", low) + positive("high_frequency_factor", high)
        if not ends and not low < high:
            ends = [f"low_frequency_factor ({low}) must be below high_frequency_factor ({high})"]
        faults = positive("factor", self.factor) + ends
        refuse(self, faults + whole("original_context", self.original_context))


#: Any kind of stretching.
RotaryScaling = LinearScaling | DynamicScaling | YarnScaling | LongRopeScaling | Llama3Scaling


def yarn_attention_factor(
    factor: float, *, mscale: float | None = None, mscale_all_dim: float | None = None
) -> float:
    """Give YaRN's attention factor where a model does not name one.

    ``m(1)``, or ``m(mscale) / m(mscale_all_dim)`` where both are given and neither is 0, with
    ``m(s) = 0.1 · s · ln(factor) + 1``; 1 where nothing is stretched (factor ≤ 1).

    Args:
        factor: by how much the slow pairs are stretched.
        mscale: weight of the numerator.
        mscale_all_dim: weight of the denominator.

    Returns:
        The attention factor.

    Source: Peng et al. 2023, "YaRN", equation 22; the two weights are DeepSeek-V2's.
    """

    def grown(weight: float) -> float:
        return 1.0 if factor <= 1 else 0.1 * weight * math.log(factor) + 1.0

    if mscale and mscale_all_dim:
        return grown(mscale) / grown(mscale_all_dim)
    return grown(1.0)


def longrope_attention_factor(factor: float, *, original_context: int) -> float:
    """Give LongRoPE's attention factor where a model does not name one.

    ``√(1 + ln factor / ln original_context)``; 1 where nothing is stretched (factor ≤ 1).

    Args:
        factor: context of the stretched model over the original one.
        original_context: number of positions the model was trained on before it was stretched.

    Returns:
        The attention factor.

    Source: the released Phi-3 models' configuration (microsoft/Phi-3-mini-128k-instruct).
    """
    if factor <= 1:
        return 1.0
    return math.sqrt(1 + math.log(factor) / math.log(original_context))
