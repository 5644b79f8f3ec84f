"""Feed-forward parts: what a layer makes of each token on its own."""

from collections.abc import Callable, Mapping
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor, nn

from clearhead.transformer.config import Experts, LayerKind, TransformerConfig
from clearhead.transformer.linear import Linear

__all__ = ["ACTIVATIONS", "ExpertFeedForward", "FeedForward", "make_feed_forward"]


def _quick_gelu(x: Tensor) -> Tensor:
    return x * torch.sigmoid(1.702 * x)


#: Every activation by the name a configuration gives it.
ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "gelu": nn.functional.gelu,
    "gelu_tanh": partial(nn.functional.gelu, approximate="tanh"),
    "quick_gelu": _quick_gelu,
    "relu": nn.functional.relu,
    "silu": nn.functional.silu,
}


class FeedForward(nn.Module):
    """Thinks about each token on its own: widen, bend, narrow.

    ``y = (act(x W_gate) · (x W_up)) W_down`` where gated, else ``y = act(x W_up) W_down``

    x and y are (…, d_model); between them the width is d_ff.

    Args:
        d_model: width of a token's vector.
        d_ff: width between.
        activation: which of :data:`ACTIVATIONS`.
        gated: whether one product opens and closes the other.
        bias: whether the linear layers have biases.

    Source: Vaswani et al. 2017, section 3.3; gated: Shazeer 2020, "GLU Variants Improve
    Transformer", equation 6 (SwiGLU).
    """

    def __init__(
        self,
        d_model: int,
        d_ff: int,
        *,
        activation: str = "silu",
        gated: bool = True,
        bias: bool = False,
    ) -> None:
        super().__init__()
        self.activation = activation
        self.gate = Linear(d_model, d_ff, bias=bias) if gated else None
        self.up = Linear(d_model, d_ff, bias=bias)
        self.down = Linear(d_ff, d_model, bias=bias)

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """Transform each token's vector."""
        act = ACTIVATIONS[self.activation]
        if self.gate is None:
            return self.down(act(self.up(x)))
        return self.down(act(self.gate(x)) * self.up(x))


class ExpertFeedForward(nn.Module):
    """Gives each token to a few of many gated feed-forward parts, and adds what they make of it.

    ``y = shared(x) + Σ_e expert_e(σ(r_e) · x)`` over the chosen e, those with the largest
    ``r = x W_router``

    x and y are (…, d_model).

    Args:
        d_model: width of a token's vector.
        experts: how many, how wide and how many of them a token uses.
        activation: which of :data:`ACTIVATIONS`.

    Cost: each token is multiplied with the experts it chose and with no other.
    """

    def __init__(self, d_model: int, experts: Experts, *, activation: str) -> None:
        super().__init__()
        self.chosen = experts.chosen
        self.activation = activation
        shape = (experts.count, d_model, experts.d_ff)
        self.router = Linear(d_model, experts.count, bias=False)
        self.gates = nn.Parameter(torch.empty(shape))
        self.ups = nn.Parameter(torch.empty(shape))
        self.downs = nn.Parameter(torch.empty(experts.count, experts.d_ff, d_model))
        for weight in (self.gates, self.ups, self.downs):
            nn.init.normal_(weight, std=0.02)
        self.shared = (
            FeedForward(d_model, experts.d_ff, activation=activation) if experts.shared else None
        )

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """Transform each token's vector."""
        tokens = x.flatten(0, -2)
        logits, chosen = self.router(tokens).topk(self.chosen, dim=-1)
        share = logits.float().sigmoid().to(x.dtype)
        total = torch.zeros_like(tokens) if self.shared is None else self.shared(tokens)
        for expert in range(len(self.gates)):
            token, rank = torch.where(chosen == expert)
            if len(token):
                given = tokens[token] * share[token, rank, None]
                total = total.index_add(0, token, self._expert(expert, given))
        return total.view_as(x)

    def _expert(self, expert: int, x: Float[Tensor, "given d_model"]) -> Tensor:
        act = ACTIVATIONS[self.activation]
        return (act(x @ self.gates[expert]) * (x @ self.ups[expert])) @ self.downs[expert]


def make_feed_forward(config: TransformerConfig, kind: LayerKind) -> nn.Module:
    """The feed-forward part of one kind of layer.

    Args:
        config: the configuration.
        kind: what is particular to the layer.
    """
    if kind.experts is not None:
        return ExpertFeedForward(config.d_model, kind.experts, activation=config.activation)
    return FeedForward(
        config.d_model,
        config.d_ff if kind.d_ff is None else kind.d_ff,
        activation=config.activation,
        gated=config.gated,
        bias=config.feed_forward_bias,
    )
