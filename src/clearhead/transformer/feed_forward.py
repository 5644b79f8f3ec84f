"""Feed-forward parts: what a layer makes of each token on its own."""

from collections.abc import Callable, Mapping
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor, nn

from clearhead.native.library import unseen
from clearhead.transformer.config import Experts, LayerKind, TransformerConfig
from clearhead.transformer.linear import Linear

__all__ = ["ACTIVATIONS", "ExpertFeedForward", "FeedForward", "make_feed_forward"]

#: Tokens taken at once where there are many: what is made of them between is then small enough to
#: stand in memory that is there already. Fresh pages for all at once took 5 % of a long prompt.
BLOCK = 512


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
        tokens = x.numel() // x.shape[-1] if x.numel() else 0
        if tokens >= 2 * BLOCK and self._goes_by_blocks(x):
            blocks = tokens // BLOCK
            made = torch.empty_like(x, memory_format=torch.contiguous_format)
            places = made.flatten(0, -2).tensor_split(blocks)
            for some, place in zip(x.flatten(0, -2).tensor_split(blocks), places, strict=True):
                place.copy_(self._transformed(some))
            return made
        return self._transformed(x)

    def _transformed(self, x: Tensor) -> Tensor:
        act = ACTIVATIONS[self.activation]
        if self.gate is None:
            return self.down(act(self.up(x)))
        return self.down(_opened(act(self.gate(x)), self.up(x)))

    def _goes_by_blocks(self, x: Tensor) -> bool:
        """Whether nobody can look at what is made between, and blocks have the bits of the whole.

        Of a plain object (see ``generation.plain``) no part has hooks. In float64 PyTorch's product
        rounds a row by how many stand beside it.
        """
        if any(isinstance(part, nn.Module) for part in (self.gate, self.up, self.down)):
            return False
        return x.dtype in (torch.float32, torch.bfloat16) and unseen(x)


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
        return _opened(act(x @ self.gates[expert]), x @ self.ups[expert]) @ self.downs[expert]


def _opened(gate: Tensor, up: Tensor) -> Tensor:
    """``gate · up``, in the place of the gate where no one else needs it.

    Nothing but the caller holds what an activation has just made; fresh memory for another tensor
    as wide would take longer than the product.
    """
    if gate.dtype == up.dtype and unseen(gate, up):
        return gate.mul_(up)
    return gate * up


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
