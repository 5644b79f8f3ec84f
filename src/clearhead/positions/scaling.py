"""How a rotary embedding is stretched to texts longer than it was trained on, as plain values.

A value here says what is done; :mod:`clearhead.positions.rotary` does it. A new kind of stretching
is one class here and one case there.
"""

from dataclasses import dataclass

__all__ = ["LinearScaling", "Llama3Scaling", "RotaryScaling"]


@dataclass(frozen=True)
class LinearScaling:
    """Every frequency is divided by one factor, as if positions stood closer together.

    ``θ'_p = θ_p / factor``

    Attributes:
        factor: by how much the text may be longer than in training.

    Source: Chen et al. 2023, "Extending Context Window of Large Language Models via Positional
    Interpolation", section 2.3.
    """

    factor: float


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

    Source: Grattafiori et al. 2024, "The Llama 3 Herd of Models", and the Llama 3.1 release.
    """

    factor: float
    low_frequency_factor: float
    high_frequency_factor: float
    original_context: int


RotaryScaling = LinearScaling | Llama3Scaling
