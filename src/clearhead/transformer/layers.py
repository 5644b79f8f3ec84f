"""One layer of a Transformer: what is added to the residual stream, and where it is normed."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from jaxtyping import Float
from torch import Tensor, nn

from clearhead.pipeline.rule import ScoreRule
from clearhead.pipeline.tap import Site
from clearhead.positions.rotary import Phases
from clearhead.transformer.attention import Memory, MultiHeadAttention
from clearhead.transformer.config import TransformerConfig
from clearhead.transformer.feed_forward import make_feed_forward
from clearhead.transformer.norms import make_norm

__all__ = ["Layer", "LayerCall"]


@dataclass(frozen=True, eq=False, slots=True)
class LayerCall:
    """What one call tells one layer.

    Attributes:
        rule: who may look at whom.
        phases: angles of the tokens' positions.
        temperature: factor on each query.
        memory: keys and values read before.
        source: what an encoder made of another text.
        cross_rule: who may look at which of its tokens.
        cross_memory: keys and values made from it before.
    """

    rule: ScoreRule
    phases: Phases | None = None
    temperature: Float[Tensor, "#batch 1 n 1"] | None = None
    memory: Memory | None = None
    source: Float[Tensor, "batch m d_source"] | None = None
    cross_rule: ScoreRule | None = None
    cross_memory: Memory | None = None


class Layer(nn.Module):
    """Adds to each token what attention gathers for it, then what feed-forward makes of it.

    Each part F, with its norm N, is added as the configuration's ``norm_place`` says:

    ``x + F(N(x))`` before (pre-norm), ``N(x + F(x))`` after (post-norm, as first published),
    ``x + N'(F(N(x)))`` around; or both at once: ``x + attention(N(x)) + feed_forward(N'(x))``.

    Args:
        config: sizes of the model.
        index: number of the layer.
        stack: name of the stack it stands in, for the tap: ``""``, or ``"encoder."``.

    Source: Vaswani et al. 2017, section 3.1 (after); Xiong et al. 2020, "On Layer Normalization in
    the Transformer Architecture" (before); Wang and Komatsuzaki 2021, GPT-J (both at once).
    """

    def __init__(self, config: TransformerConfig, index: int, *, stack: str = "") -> None:
        super().__init__()
        self.place = config.norm_place
        self.parallel = config.parallel
        kind: Literal["self", "encoder"] = "encoder" if stack else "self"
        name = f"{stack}layers.{index}"
        self.attention = _attention(config, index, Site(index, kind, f"{name}.attention"))
        self.attention_norm = make_norm(config)
        self.attention_out_norm = make_norm(config) if self.place == "around" else None
        if config.encoder is not None:
            site = Site(index, "cross", f"{name}.cross_attention")
            self.cross_attention = _attention(config, index, site, source=config.encoder.d_model)
            self.cross_attention_norm = make_norm(config)
            self.cross_attention_out_norm = make_norm(config) if self.place == "around" else None
        else:
            self.cross_attention = None
        self.feed_forward = make_feed_forward(config, config.layer_kind(index))
        self.feed_forward_norm = make_norm(config)
        self.feed_forward_out_norm = make_norm(config) if self.place == "around" else None

    def forward(
        self, x: Float[Tensor, "batch n d_model"], call: LayerCall
    ) -> Float[Tensor, "batch n d_model"]:
        """Run one layer.

        Args:
            x: the residual stream.
            call: who may look at whom, and where the tokens stand.

        Returns:
            The residual stream with every part added.
        """
        if self.parallel:
            attended = self._attend(self.attention_norm(x), call)
            return x + (self.feed_forward(self.feed_forward_norm(x)) + attended)
        x = self._added(
            x, lambda x: self._attend(x, call), self.attention_norm, self.attention_out_norm
        )
        if self.cross_attention is not None:
            x = self._added(
                x,
                lambda x: self._attend_across(x, call),
                self.cross_attention_norm,
                self.cross_attention_out_norm,
            )
        return self._added(x, self.feed_forward, self.feed_forward_norm, self.feed_forward_out_norm)

    def _added(
        self, x: Tensor, part: Callable[[Tensor], Tensor], norm: nn.Module, out: nn.Module | None
    ) -> Tensor:
        if self.place == "after":
            return norm(x + part(x))
        update = part(norm(x))
        return x + (update if out is None else out(update))

    def _attend(self, x: Tensor, call: LayerCall) -> Tensor:
        return self.attention(
            x, rule=call.rule, phases=call.phases, temperature=call.temperature, memory=call.memory
        )

    def _attend_across(self, x: Tensor, call: LayerCall) -> Tensor:
        assert self.cross_attention is not None
        return self.cross_attention(x, call.source, rule=call.cross_rule, memory=call.cross_memory)


def _attention(
    config: TransformerConfig, index: int, site: Site, *, source: int | None = None
) -> MultiHeadAttention:
    scale = config.layer_kind(index).scale
    return MultiHeadAttention(
        config.d_model,
        heads=config.heads,
        kv_heads=config.kv_heads,
        d_k=config.d_k,
        d_v=config.d_v,
        d_source=source,
        input_bias=config.input_bias,
        output_bias=config.output_bias,
        scale=config.scale if scale is None else scale,
        softcap=config.softcap,
        sinks=config.sinks and source is None,
        query_key_norm=config.query_key_norm,
        norm_epsilon=config.norm_epsilon,
        norm_offset=config.norm_offset,
        site=site,
    )
