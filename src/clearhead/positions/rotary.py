"""Rotary positions: queries and keys are turned by an angle that grows with their position.

A head's d_k numbers are taken as pairs, and each pair is turned like the hand of a clock: the first
pair quickest, the last one slowest. A dot product of two turned vectors depends on their content
and on the *distance* between them, not on where they stand.
"""

from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int
from torch import Tensor

from clearhead.errors import ShapeError
from clearhead.native.rotary import turned
from clearhead.positions.faults import refuse, whole
from clearhead.positions.frequencies import frequencies
from clearhead.positions.kinds import Rotary, unturnable
from clearhead.positions.scaling import LongRopeScaling, YarnScaling

__all__ = ["Phases", "RotaryEmbedding", "rotate"]


@dataclass(frozen=True)
class RotaryEmbedding:
    """Turns pair p of a vector at position i by the angle ``i · θ_p``.

    ``θ_p = theta^(−2p / width)``, stretched as the scaling says. Pair p is the numbers p and
    p + width/2 of a head, or where ``rotary.interleaved`` its numbers 2p and 2p + 1.

    A value without tensors: a model's dtype cannot reach its frequencies, which are float32 always.
    In bfloat16 position 15,962 would read 15,936, whose cosine is -0.27 where −0.91 is right.

    Attributes:
        d_k: width of a head.
        rotary: base, scaling, how many numbers turn, and which make a pair.

    Raises:
        InputError: the numbers that turn are no pairs or more than d_k, or the scaling does not fit
            them; all faults at once.

    Source: Su et al. 2021, "RoFormer: Enhanced Transformer with Rotary Position Embedding", section
    3.2.2. Pairs there are (2p, 2p + 1); released Llama weights have (p, p + width/2).
    """

    d_k: int
    rotary: Rotary = field(default_factory=Rotary)

    def __post_init__(self) -> None:
        if self.rotary.width is None:
            faults = unturnable("d_k", self.d_k, self.rotary.scaling)
        else:
            faults = whole("d_k", self.d_k)
            if not faults and self.rotary.width > self.d_k:
                faults = [f"width ({self.rotary.width}) must not be above d_k ({self.d_k})"]
        refuse(self, faults)

    @property
    def width(self) -> int:
        """How many of a head's numbers turn, the first ones."""
        return self.d_k if self.rotary.width is None else self.rotary.width

    @property
    def depends_on_length(self) -> bool:
        """Whether a token's angle depends on the length of its text, not on its place alone."""
        return self.rotary.depends_on_length

    def frequencies(
        self, lengths: Int[Tensor, "rows"] | None = None, *, device: torch.device | None = None
    ) -> Float[Tensor, "*rows pairs"]:
        """Angle by which each pair turns from one position to the next, in float32.

        Args:
            lengths: tokens of each text, used only where frequencies depend on the length; None is
                any length within the original context.
            device: where the result lies, and ``lengths`` too; None is the CPU.

        Returns:
            θ_p for p = 0 … width/2 − 1; one row a text where they depend on its length.
        """
        return frequencies(self.rotary, width=self.width, lengths=lengths, device=device)

    def phases(
        self,
        positions: Int[Tensor, "#batch n"],
        *,
        dtype: torch.dtype,
        lengths: Int[Tensor, "batch"] | None = None,
    ) -> "Phases":
        """Cosine and sine of every angle, once for all layers and heads.

        Args:
            positions: absolute position of each token.
            dtype: dtype to turn in, as a rule that of the queries and keys; angles are float32
                whatever it is.
            lengths: tokens of each row's text in all, those of the past included; used only where
                angles depend on it, and None is each row's largest position + 1. A row's own length
                counts, never its neighbours'.

        Returns:
            The phases, rounded to ``dtype`` only after cosine, sine and attention factor.

        Raises:
            ShapeError: there is not one length a row.

        Cost: n · width numbers a batch row, twice.
        """
        of_rows = self._lengths(positions, lengths) if self.depends_on_length else None
        turns = self.frequencies(of_rows, device=positions.device)
        angles = positions[..., None].float() * turns.unsqueeze(-2)
        cosine, sine = angles.cos(), angles.sin()
        scaling = self.rotary.scaling
        if isinstance(scaling, YarnScaling | LongRopeScaling):
            cosine, sine = cosine * scaling.attention_factor, sine * scaling.attention_factor
        cosine, sine = cosine.to(dtype).unsqueeze(1), sine.to(dtype).unsqueeze(1)
        return Phases(
            cosine=self._both(cosine, cosine),
            sine=self._both(-sine, sine),
            interleaved=self.rotary.interleaved,
        )

    def _lengths(
        self, positions: Int[Tensor, "#batch n"], lengths: Int[Tensor, "batch"] | None
    ) -> Int[Tensor, "batch"]:
        rows, n = positions.shape
        if lengths is None:
            return positions.amax(-1) + 1 if n else positions.new_zeros(rows)
        if lengths.dim() != 1 or rows not in (1, len(lengths)):
            raise ShapeError(
                f"lengths must be ({rows},), one number a row of positions, "
                f"got shape {tuple(lengths.shape)}"
            )
        return lengths

    def _both(
        self, first: Float[Tensor, "#batch 1 n pairs"], second: Float[Tensor, "#batch 1 n pairs"]
    ) -> Float[Tensor, "#batch 1 n width"]:
        """What belongs to the first and to the second number of each pair, where they stand."""
        if self.rotary.interleaved:
            return torch.stack((first, second), dim=-1).flatten(-2)
        return torch.cat((first, second), dim=-1)


@dataclass(frozen=True, eq=False)
class Phases:
    """What turns each number that turns, at each position, the same for every head.

    Attributes:
        cosine: of the angle of the number's pair.
        sine: of that angle too, and negative for the first number of a pair: what its partner is
            multiplied by.
        interleaved: whether a number's partner is its neighbour; else it is half the width away.
    """

    cosine: Float[Tensor, "#batch 1 n width"]
    sine: Float[Tensor, "#batch 1 n width"]
    interleaved: bool = False


def rotate(
    x: Float[Tensor, "batch heads n d_k"], phases: Phases | None
) -> Float[Tensor, "batch heads n d_k"]:
    """Turn every pair of every head by the angle of its position.

    ``a' = a · cos − b · sin`` and ``b' = b · cos + a · sin`` for each pair (a, b), in the dtype of
    the phases.

    Args:
        x: queries or keys.
        phases: the angles of their positions; None turns nothing.

    Returns:
        x turned, in its dtype. Numbers beyond the width of the phases are as they were. Lengths of
        pairs are kept, but for an attention factor.
    """
    if phases is None:
        return x
    width = phases.cosine.shape[-1]
    if width == x.shape[-1]:
        return _turned(x, phases)
    return torch.cat((_turned(x[..., :width], phases), x[..., width:]), dim=-1)


def _turned(
    x: Float[Tensor, "batch heads n width"], phases: Phases
) -> Float[Tensor, "batch heads n width"]:
    native = turned(x, phases.cosine, phases.sine, interleaved=phases.interleaved)
    if native is not None:
        return native
    wide = x.to(phases.cosine.dtype)
    if phases.interleaved:
        partners = wide.reshape(*x.shape[:-1], x.shape[-1] // 2, 2).flip(-1).flatten(-2)
    else:
        partners = wide.roll(x.shape[-1] // 2, dims=-1)
    # Partners are a fresh copy, so they may be written to: that spares two more.
    return partners.mul_(phases.sine).add_(wide * phases.cosine).to(x.dtype)
