"""What a token is before the first layer: its vector, its place and its type, added up."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from clearhead.positions.absolute import LearnedPositions, SinusoidalPositions
from clearhead.positions.kinds import Learned, Sinusoidal
from clearhead.transformer.config import TransformerConfig
from clearhead.transformer.norms import make_norm

__all__ = ["Embedding"]


class Embedding(nn.Module):
    """Turns token ids into the vectors the first layer reads.

    ``x = norm(scale · E[id] + position + type)``, each part where the configuration has it

    Args:
        config: sizes and choices; the table of token vectors E belongs to the stack.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.scale = config.embedding_scale
        self.position: LearnedPositions | SinusoidalPositions | None = None
        match config.positions:
            case Learned(offset):
                assert config.context_length is not None
                self.position = LearnedPositions(
                    config.context_length, config.d_model, offset=offset
                )
            case Sinusoidal(layout):
                self.position = SinusoidalPositions(config.d_model, layout=layout)
            case _:
                pass
        self.token_type = (
            nn.Embedding(config.token_types, config.d_model) if config.token_types else None
        )
        self.norm = make_norm(config) if config.embedding_norm else None

    def forward(
        self,
        vectors: Float[Tensor, "batch n d_model"],
        *,
        positions: Int[Tensor, "#batch n"],
        types: Int[Tensor, "batch n"] | None,
    ) -> Float[Tensor, "batch n d_model"]:
        """Add up what a token is.

        Args:
            vectors: E[id] of each token.
            positions: where each token stands.
            types: which type each has; None is type 0.
        """
        x = vectors
        if self.scale != 1.0:
            # the released models round the factor to the dtype first
            x = x * torch.tensor(self.scale, dtype=x.dtype, device=x.device)
        if self.token_type is not None:
            x = x + (self.token_type.weight[0] if types is None else self.token_type(types))
        if isinstance(self.position, LearnedPositions):
            x = x + self.position(positions)
        elif self.position is not None:
            x = x + self.position(positions, dtype=x.dtype)
        return x if self.norm is None else self.norm(x)
