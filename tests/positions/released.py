"""Rotary positions as released models have them: ours beside the configuration they come from."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from clearhead.positions.kinds import Rotary
from clearhead.positions.scaling import (
    DynamicScaling,
    LinearScaling,
    Llama3Scaling,
    LongRopeScaling,
    RotaryScaling,
    YarnScaling,
    longrope_attention_factor,
    yarn_attention_factor,
)

D_K, ORIGINAL, STRETCHED = 16, 64, 512
WIDTHS = [4, 8, D_K]
KINDS = ["default", "linear", "dynamic", "llama3", "yarn", "longrope"]


@dataclass(frozen=True)
class Released:
    """One scaling, and what a config.json says of it."""

    scaling: RotaryScaling | None
    rope: Mapping[str, object] = field(repr=False)

    @property
    def name(self) -> str:
        """Kind of the scaling, as a config.json has it."""
        return str(self.rope["rope_type"])


def every_scaling(width: int, generator: torch.Generator) -> list[Released]:
    """One scaling of every kind, with numbers of its own, for so many numbers that turn."""
    factor = 1 + 7 * _fraction(generator)
    short, long = (
        tuple((1 + 9 * torch.rand(width // 2, generator=generator)).tolist()) for _ in range(2)
    )
    context = {"original_max_position_embeddings": ORIGINAL}
    return [
        Released(None, {"rope_type": "default"}),
        Released(LinearScaling(factor), {"rope_type": "linear", "factor": factor}),
        Released(DynamicScaling(factor, ORIGINAL), {"rope_type": "dynamic", "factor": factor}),
        Released(
            Llama3Scaling(factor, 1.0, 4.0, ORIGINAL),
            {
                "rope_type": "llama3",
                "factor": factor,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                **context,
            },
        ),
        Released(
            YarnScaling(factor, ORIGINAL, yarn_attention_factor(factor)),
            {"rope_type": "yarn", "factor": factor, **context},
        ),
        Released(
            LongRopeScaling(
                short,
                long,
                ORIGINAL,
                longrope_attention_factor(STRETCHED / ORIGINAL, original_context=ORIGINAL),
            ),
            {
                "rope_type": "longrope",
                "short_factor": list(short),
                "long_factor": list(long),
                **context,
            },
        ),
    ]


def released_of(kind: str, generator: torch.Generator, *, width: int = D_K) -> Released:
    """The scaling of one kind."""
    return next(r for r in every_scaling(width, generator) if r.name == kind)


def theta_of(generator: torch.Generator) -> float:
    """A base, new in every run."""
    return 10 ** (2 + 4 * _fraction(generator))


def draw(generator: torch.Generator, *, rows: int = 3, n: int = 9) -> Tensor:
    """Heads as a model cuts them: not contiguous."""
    return torch.randn(rows, n, 2, D_K, generator=generator, dtype=torch.float64).transpose(1, 2)


def places(generator: torch.Generator, *, rows: int = 3, n: int = 9) -> Tensor:
    """Rows of positions, of texts within the original context and beyond it."""
    reach = torch.tensor([ORIGINAL // 2, 8 * ORIGINAL, 3 * ORIGINAL])[:rows, None]
    return (torch.rand(rows, n, generator=generator) * reach).long()


def their_config(released: Released, rotary: Rotary, *, d_k: int = D_K) -> object:
    """The same as a configuration of transformers."""
    from transformers import LlamaConfig

    width = d_k if rotary.width is None else rotary.width
    return LlamaConfig(
        head_dim=d_k,
        # Of the dynamic kind, the original context is the model's own.
        max_position_embeddings=ORIGINAL if released.name == "dynamic" else STRETCHED,
        rope_parameters={
            "rope_theta": rotary.theta,
            "partial_rotary_factor": width / d_k,
            **released.rope,
        },
    )


def turned_by_them(x: Tensor, positions: Tensor, config: object) -> Tensor:
    """Every row of x turned by transformers, alone: a fresh module for each, no history.

    By Phi-3's code, the one that turns a part of a head for every scaling.
    """
    from transformers.models.phi3.modeling_phi3 import Phi3RotaryEmbedding, apply_rotary_pos_emb

    rows: list[Tensor] = []
    for row, where in zip(x.split(1), positions.split(1), strict=True):
        turned, _ = apply_rotary_pos_emb(row, row, *Phi3RotaryEmbedding(config)(row, where))
        rows.append(turned)
    return torch.cat(rows)


def _fraction(generator: torch.Generator) -> float:
    return float(torch.rand((), generator=generator))
