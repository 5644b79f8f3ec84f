"""From the last vectors to a score for every token of the vocabulary."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from clearhead.native.linear import linear
from clearhead.transformer.config import TransformerConfig
from clearhead.transformer.feed_forward import ACTIVATIONS
from clearhead.transformer.linear import Linear
from clearhead.transformer.norms import make_norm

__all__ = ["Logits"]


class Logits(nn.Module):
    """Scores every token of the vocabulary.

    ``logits = softcap(scale · x W + b)``, with ``norm(act(x W_t + b_t))`` for x where the model
    transforms it first

    x is (…, d_model), W is (vocabulary_size, d_model).

    Args:
        config: which of these the model has.

    Source: Press and Wolf 2017, "Using the Output Embedding to Improve Language Models", for a W
    that is the token embedding; Devlin et al. 2019, "BERT", for the transform.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.scale = config.logits_scale
        self.softcap = config.logits_softcap
        self.activation = config.activation
        self.transform = Linear(config.d_model, config.d_model) if config.logits_transform else None
        self.norm = make_norm(config) if config.logits_transform else None
        self.weight = nn.Parameter(torch.empty(config.vocabulary_size, config.d_model))
        nn.init.normal_(self.weight, std=0.02)
        self.bias = (
            nn.Parameter(torch.zeros(config.vocabulary_size)) if config.logits_bias else None
        )

    def forward(
        self, x: Float[Tensor, "*batch d_model"], *, of_many: bool = False
    ) -> Float[Tensor, "*batch vocabulary"]:
        """Score every token at each position of x.

        Args:
            x: the last vectors.
            of_many: whether x was taken from the vectors of several tokens: its product then is
                PyTorch's even where x is one row, as that of all their rows is.
        """
        if self.transform is not None and self.norm is not None:
            x = self.norm(ACTIVATIONS[self.activation](self.transform(x)))
        if self.scale != 1.0:
            x = x * self.scale
        product = nn.functional.linear if of_many else linear
        logits = product(x, self.weight, self.bias)
        if self.softcap is None:
            return logits
        return torch.tanh(logits / self.softcap) * self.softcap
