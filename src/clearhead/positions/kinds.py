"""The kinds of positions a Transformer can have, as plain values; imports no torch.

A kind says what is done; :mod:`~clearhead.positions.absolute` (on X),
:mod:`~clearhead.positions.rotary` (on Q and K) and :mod:`~clearhead.positions.bias` (on S) do it.
"""

from dataclasses import dataclass
from typing import Literal

from clearhead.positions.faults import positive, refuse, whole
from clearhead.positions.scaling import (
    DynamicScaling,
    LongRopeScaling,
    RotaryScaling,
    YarnScaling,
)

__all__ = ["Alibi", "Layout", "Learned", "Positions", "Rotary", "Sinusoidal", "T5Buckets"]

#: Where the sines and cosines of a vector stand: all sines first, or each beside its cosine.
Layout = Literal["halves", "interleaved"]


@dataclass(frozen=True)
class Learned:
    """Each position has a vector of its own, learned in training and added to X.

    Attributes:
        offset: rows of the table before the one of position 0; BART and RoBERTa have 2.

    Raises:
        InputError: ``offset`` is not a whole number, or negative.

    Source: Devlin et al. 2019, "BERT", section 3, figure 2.
    """

    offset: int = 0

    def __post_init__(self) -> None:
        refuse(self, whole("offset", self.offset, least=0))


@dataclass(frozen=True)
class Sinusoidal:
    """Each position has a vector of sines and cosines, fixed by a formula and added to X.

    Attributes:
        layout: ``"interleaved"`` (sin, cos, sin, cos, …) as in the paper, or ``"halves"`` (sin,
            sin, …, cos, cos) as in Marian and Pegasus.

    Raises:
        InputError: the layout is not known.

    Source: Vaswani et al. 2017, "Attention Is All You Need", section 3.5.
    """

    layout: Layout = "interleaved"

    def __post_init__(self) -> None:
        refuse(self, unknown_layout(self.layout))


@dataclass(frozen=True)
class Rotary:
    """Queries and keys are turned by angles that grow with their position.

    Attributes:
        theta: base of the frequencies; larger turns the slow pairs slower.
        scaling: how they are stretched to longer texts; None is not at all.
        width: how many of a head's numbers turn, the first ones; None is all.
        interleaved: whether neighbours (2p, 2p + 1) are a pair, as in GPT-J and Llama 4; else
            number p and number p + width/2 are, as in Llama.

    Raises:
        InputError: ``theta`` is not positive, ``width`` not even, or the scaling does not fit them;
            all faults at once.

    Source: Su et al. 2021, "RoFormer: Enhanced Transformer with Rotary Position Embedding", section
    3.2.2.
    """

    theta: float = 10_000.0
    scaling: RotaryScaling | None = None
    width: int | None = None
    interleaved: bool = False

    def __post_init__(self) -> None:
        faults = positive("theta", self.theta)
        if not faults and isinstance(self.scaling, YarnScaling) and self.theta <= 1:
            faults.append(f"theta must be above 1 for YarnScaling, got {self.theta}")
        if self.width is not None:
            faults += unturnable("width", self.width, self.scaling)
        refuse(self, faults)

    @property
    def depends_on_length(self) -> bool:
        """Whether a token's angle depends on the length of its text, not on its place alone."""
        return isinstance(self.scaling, DynamicScaling | LongRopeScaling)


@dataclass(frozen=True)
class Alibi:
    """Scores fall with distance, each head at its own rate.

    Source: Press et al. 2022, "Train Short, Test Long: Attention with Linear Biases", section 3.
    """


@dataclass(frozen=True)
class T5Buckets:
    """Scores have a learned bias for each head and each bucket of distances.

    Attributes:
        buckets: number of different biases a head has; even.
        max_distance: distance from which on all fall into the last bucket.

    Raises:
        InputError: a number is too small or ``buckets`` is odd; all faults at once.

    Source: Raffel et al. 2020, "Exploring the Limits of Transfer Learning with a Unified
    Text-to-Text Transformer", section 2.1.
    """

    buckets: int = 32
    max_distance: int = 128

    def __post_init__(self) -> None:
        faults = whole("buckets", self.buckets, least=4)
        if not faults and self.buckets % 2:
            faults.append(f"buckets must be even, got {self.buckets}: half may look each way")
        # In a decoder half of the buckets hold one distance each; the others need some to share.
        least = 1 if faults else self.buckets // 2 + 1
        refuse(self, faults + whole("max_distance", self.max_distance, least=least))


#: Any kind of positions.
Positions = Learned | Sinusoidal | Rotary | Alibi | T5Buckets


def unknown_layout(layout: object) -> list[str]:
    """Say so if a layout of sines and cosines is not known.

    Args:
        layout: what was given.

    Returns:
        No line, or one.
    """
    if layout in ("halves", "interleaved"):
        return []
    return [f"layout must be 'halves' or 'interleaved', got {layout!r}"]


def unturnable(name: str, width: object, scaling: RotaryScaling | None) -> list[str]:
    """Say why so many numbers of a head cannot turn, if they cannot.

    Args:
        name: what the number is called where it was given.
        width: how many are to turn.
        scaling: how their frequencies are stretched; it may be made for another number of pairs.

    Returns:
        One line a fault.
    """
    if not isinstance(width, int) or isinstance(width, bool) or width < 2 or width % 2:
        return [f"{name} must be even and positive, got {width!r}: numbers turn in pairs"]
    if isinstance(scaling, DynamicScaling) and width < 4:
        return [f"{name} must be at least 4 for DynamicScaling, got {width}"]
    if isinstance(scaling, LongRopeScaling) and len(scaling.short_factors) != width // 2:
        count = len(scaling.short_factors)
        expected = f"{width // 2} factors, one a pair, got {count}"
        return [f"{name} is {width}, so LongRopeScaling must have {expected}"]
    return []
