"""A stack: token ids in, one vector a token out. A model is one stack with a head, or two."""

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from clearhead.positions.bias import T5RelativeBias
from clearhead.positions.kinds import T5Buckets
from clearhead.transformer.cache_step import CacheStep
from clearhead.transformer.calls import Call, Encoded
from clearhead.transformer.config import TransformerConfig
from clearhead.transformer.embedding import Embedding
from clearhead.transformer.layers import Layer
from clearhead.transformer.norms import make_norm

__all__ = ["Stack"]


class Stack(nn.Module):
    """Embedding, layers and final norm.

    Args:
        config: sizes and choices.
        name: what stands before the names of its layers, for the tap: ``""`` or ``"encoder."``.
    """

    def __init__(self, config: TransformerConfig, *, name: str = "") -> None:
        super().__init__()
        self.config = config
        self.token_embedding = nn.Embedding(config.vocabulary_size, config.d_model)
        self.embedding = Embedding(config)
        self.relative_bias = (
            T5RelativeBias(
                config.heads,
                buckets=config.positions.buckets,
                max_distance=config.positions.max_distance,
                bidirectional=config.kind == "encoder",
            )
            if isinstance(config.positions, T5Buckets)
            else None
        )
        self.layers = nn.ModuleList(
            Layer(config, index, stack=name) for index in range(config.layers)
        )
        self.final_norm = make_norm(config) if config.final_norm else nn.Identity()

    def hidden(
        self,
        ids: Int[Tensor, "batch n"],
        *,
        real: Bool[Tensor, "batch n"] | None = None,
        documents: Int[Tensor, "batch n"] | None = None,
        token_types: Int[Tensor, "batch n"] | None = None,
        step: CacheStep | None = None,
        source: Encoded | None = None,
    ) -> Float[Tensor, "batch n d_model"]:
        """Run the stack.

        Args:
            ids: tokens by number.
            real: which of them are real; None is all.
            documents: which text of several in a row each belongs to; None is one text.
            token_types: which type each has; None is type 0.
            step: their way into a cache.
            source: what an encoder made of another text.

        Returns:
            The residual stream after the last layer, normed where the configuration says so.
        """
        bias = self.relative_bias
        call = Call(self.config, ids, real, documents, step, source, bias)
        x = self.embedding(self.token_embedding(ids), positions=call.positions(), types=token_types)
        # weights that are read leave nothing else in the processor's caches: what layers are told
        # is made for all in one go, at a tenth of what it costs between two of them
        told = [call.layer(index, dtype=x.dtype) for index in range(len(self.layers))]
        for layer, its in zip(self.layers, told, strict=True):
            x = layer(x, its)
        return self.final_norm(x)
