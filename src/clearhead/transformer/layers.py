"""The parts of a Transformer: norm, attention, feed-forward.

Shapes: n tokens of width d_model; heads query heads, kv_heads key and value heads, each of width
d_k (values: d_v). A weight W is stored as (out, in), as PyTorch does; formulas write ``x W`` for
the product with its transpose.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from clearhead.pipeline.rule import ScoreRule
from clearhead.pipeline.tap import Site, attend, visit
from clearhead.positions.rotary import Phases, rotate

__all__ = ["FeedForward", "MultiHeadAttention", "RMSNorm"]

_ALONE = Site(layer=0, kind="self", name="attention")


class RMSNorm(nn.Module):
    """Brings every token's vector to root mean square 1, then scales each of its numbers.

    ``y = w · x / √(mean(x²) + ε)``

    x and y are (…, d_model), w is (d_model,). The root is taken in float32 whatever the dtype of x,
    float64 included, for so the released models were defined.

    Args:
        d_model: width of a vector.
        epsilon: ε, which keeps a vector of zeros finite.

    Source: Zhang and Sennrich 2019, "Root Mean Square Layer Normalization", equation 4.
    """

    def __init__(self, d_model: int, *, epsilon: float) -> None:
        super().__init__()
        self.epsilon = epsilon
        self.weight = nn.Parameter(torch.ones(d_model))

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """Normalise each vector of x."""
        wide = x.float()
        root = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.epsilon)
        return self.weight * (wide * root).to(x.dtype)


class FeedForward(nn.Module):
    """Thinks about each token on its own: widen, gate, narrow.

    ``y = (silu(x W_gate) · (x W_up)) W_down``

    x and y are (…, d_model); between them the width is d_ff.

    Args:
        d_model: width of a token's vector.
        d_ff: width between.
        bias: whether the three linear layers have biases.

    Source: Shazeer 2020, "GLU Variants Improve Transformer", equation 6 (SwiGLU).
    """

    def __init__(self, d_model: int, d_ff: int, *, bias: bool = False) -> None:
        super().__init__()
        self.gate = nn.Linear(d_model, d_ff, bias=bias)
        self.up = nn.Linear(d_model, d_ff, bias=bias)
        self.down = nn.Linear(d_ff, d_model, bias=bias)

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """Transform each token's vector."""
        return self.down(nn.functional.silu(self.gate(x)) * self.up(x))


class MultiHeadAttention(nn.Module):
    """Lets every token gather from the tokens it may look at, several heads side by side.

    ``Q, K, V = X W_Q, X W_K, X W_V``;  ``C = softmax(S(Q, K)) V``;  ``O = concat(C) W_O + b_O``

    X and O are (batch, n, d_model), Q is (batch, heads, n, d_k), K (batch, kv_heads, n, d_k), V
    (batch, kv_heads, n, d_v) and C (batch, heads, n, d_v). With fewer key heads than query heads,
    query head h reads key head h // (heads / kv_heads), and nothing is repeated in memory.

    Args:
        d_model: width of a token's vector.
        heads: number of query heads.
        kv_heads: number of key and value heads; None is as many as query heads.
        d_k: width of a query and of a key.
        d_v: width of a value; None is d_k.
        bias: whether the four linear layers have biases.
        site: where in a model this attention stands, for the tap.

    Source: Vaswani et al. 2017, "Attention Is All You Need", section 3.2.2; grouped heads: Ainslie
    et al. 2023, "GQA", section 2.2.
    """

    def __init__(
        self,
        d_model: int,
        *,
        heads: int,
        kv_heads: int | None = None,
        d_k: int,
        d_v: int | None = None,
        bias: bool = False,
        site: Site = _ALONE,
    ) -> None:
        super().__init__()
        self.heads = heads
        self.kv_heads = heads if kv_heads is None else kv_heads
        self.site = site
        d_v = d_k if d_v is None else d_v
        self.to_query = nn.Linear(d_model, self.heads * d_k, bias=bias)
        self.to_key = nn.Linear(d_model, self.kv_heads * d_k, bias=bias)
        self.to_value = nn.Linear(d_model, self.kv_heads * d_v, bias=bias)
        self.to_output = nn.Linear(self.heads * d_v, d_model, bias=bias)

    def forward(
        self,
        x: Float[Tensor, "batch n d_model"],
        *,
        rule: ScoreRule,
        phases: Phases | None = None,
    ) -> Float[Tensor, "batch n d_model"]:
        """Attend from every token of x to every token the rule lets it see.

        Args:
            x: what the layer reads.
            rule: how scores are made, the mask included.
            phases: angles that turn queries and keys; None leaves the layer blind to order.

        Returns:
            O, to be added to the residual stream.

        Cost: n² · heads · (d_k + d_v) operations; memory grows with n.
        """
        x = visit(self.site, "attention_input", x)
        query = rotate(_split(self.to_query(x), self.heads), phases)
        key = rotate(_split(self.to_key(x), self.kv_heads), phases)
        value = _split(self.to_value(x), self.kv_heads)
        context = attend(query, key, value, rule=rule, site=self.site).context
        output = self.to_output(_join(context))
        return visit(self.site, "output", output)

    def output_projection(
        self,
    ) -> tuple[Float[Tensor, "d_model width"], Float[Tensor, "d_model"] | None]:
        """W_O as (d_model, heads · d_v), and its bias or None."""
        return self.to_output.weight, self.to_output.bias


def _split(x: Float[Tensor, "batch n width"], heads: int) -> Float[Tensor, "batch heads n d"]:
    """Cut each token's vector into one piece a head."""
    batch, n, width = x.shape
    return x.reshape(batch, n, heads, width // heads).transpose(1, 2)


def _join(context: Float[Tensor, "batch heads n d"]) -> Float[Tensor, "batch n width"]:
    """Lay all heads' pieces of a token side by side again."""
    return context.transpose(1, 2).flatten(2)
