"""Absolute positions: a vector for each place in the text, added to X before the first layer."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from clearhead.errors import InputError
from clearhead.positions.faults import refuse, whole
from clearhead.positions.kinds import Layout, unknown_layout

__all__ = ["LearnedPositions", "SinusoidalPositions"]


class LearnedPositions(nn.Module):
    """Gives each position the vector that training found for it.

    ``P_i = weight[offset + i]``

    P is (batch, n, d_model), weight is (offset + count, d_model).

    Args:
        count: number of positions there are vectors for.
        d_model: width of a vector.
        offset: rows of the table before the one of position 0; BART and RoBERTa have 2.

    Raises:
        InputError: a number is too small; all faults at once.

    Source: Devlin et al. 2019, "BERT", section 3, figure 2.
    """

    def __init__(self, count: int, d_model: int, *, offset: int = 0) -> None:
        super().__init__()
        faults = whole("count", count) + whole("d_model", d_model)
        refuse(self, faults + whole("offset", offset, least=0))
        self.count = count
        self.offset = offset
        self.weight = nn.Parameter(torch.empty(offset + count, d_model))
        nn.init.normal_(self.weight)

    def forward(self, positions: Int[Tensor, "#batch n"]) -> Float[Tensor, "#batch n d_model"]:
        """Look up the vector of each position.

        Args:
            positions: place of each token in its text, from 0.

        Returns:
            P, to be added to the tokens' vectors.

        Raises:
            InputError: a position is not in the table. A compiled graph does not look.
        """
        self._check(positions)
        rows = positions + self.offset if self.offset else positions
        return nn.functional.embedding(rows, self.weight)

    def _check(self, positions: Int[Tensor, "#batch n"]) -> None:
        # Looking at values would split a compiled graph.
        if torch.compiler.is_compiling() or not positions.numel():
            return
        low, high = (int(end) for end in torch.aminmax(positions))
        if low < 0 or high >= self.count:
            raise InputError(
                f"positions must lie in 0 … {self.count - 1}, got {low} … {high}: "
                f"this model has learned {self.count} positions; shorten the text"
            )


class SinusoidalPositions(nn.Module):
    """Gives each position a vector of sines and cosines, from quick to slow.

    ``P_i[2p] = sin(i · θ_p)`` and ``P_i[2p + 1] = cos(i · θ_p)`` with
    ``θ_p = 10000^(−2p / d_model)``; laid out in halves, ``P_i[p]`` and ``P_i[p + d_model/2]``.

    P is (batch, n, d_model). Nothing is learned and nothing stored, so there is no longest text.

    Args:
        d_model: width of a vector; even.
        layout: where sines and cosines stand.

    Raises:
        InputError: ``d_model`` is not even, or the layout not known; all faults at once.

    Source: Vaswani et al. 2017, "Attention Is All You Need", section 3.5.
    """

    def __init__(self, d_model: int, *, layout: Layout = "interleaved") -> None:
        super().__init__()
        faults = whole("d_model", d_model, least=2)
        if not faults and d_model % 2:
            faults.append(f"d_model must be even, got {d_model}: each sine has a cosine")
        refuse(self, faults + unknown_layout(layout))
        self.d_model = d_model
        self.layout = layout

    def forward(
        self, positions: Int[Tensor, "#batch n"], *, dtype: torch.dtype
    ) -> Float[Tensor, "#batch n d_model"]:
        """Work out the vector of each position.

        Args:
            positions: place of each token in its text, from 0.
            dtype: dtype of the result.

        Returns:
            P, to be added to the tokens' vectors; rounded to float32, then to ``dtype``.

        Cost: n · d_model numbers a batch row.
        """
        # Released tables were worked out in float64 and stored in float32; Apple's GPUs have none.
        wide = torch.float32 if positions.device.type == "mps" else torch.float64
        pairs = torch.arange(0, self.d_model, 2, dtype=wide, device=positions.device)
        angles = positions[..., None].to(wide) / 10_000.0 ** (pairs / self.d_model)
        sine, cosine = angles.sin().float().to(dtype), angles.cos().float().to(dtype)
        if self.layout == "halves":
            return torch.cat((sine, cosine), dim=-1)
        return torch.stack((sine, cosine), dim=-1).flatten(-2)
