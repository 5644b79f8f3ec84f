"""The Transformer: token ids in, logits out.

A stream of vectors, one a token, runs through the layers; each layer reads it twice and adds to it.

    ids ─▶ token_embedding ─▶ x ─▶ layer ─▶ … ─▶ layer ─▶ final_norm ─▶ to_logits ─▶ logits

    layer:  x ─┬─▶ attention_norm ─▶ attention ─▶ + ─┬─▶ feed_forward_norm ─▶ feed_forward ─▶ + ─▶
               └──────────────────────────────────┘  └────────────────────────────────────────┘
"""

from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from clearhead.errors import InputError, gathered
from clearhead.masks import Mask, causal_mask, padding_mask
from clearhead.pipeline.rule import ScoreRule
from clearhead.pipeline.tap import Site
from clearhead.positions.rotary import Phases, RotaryEmbedding
from clearhead.transformer.config import FAMILIES, TransformerConfig, from_hugging_face
from clearhead.transformer.layers import FeedForward, MultiHeadAttention, RMSNorm
from clearhead.transformer.model_folder import ModelFolder, read_folder
from clearhead.transformer.weights import Undrawn, read_weights

__all__ = ["DecoderLayer", "Transformer", "TransformerOutput"]


@dataclass(frozen=True, eq=False)
class TransformerOutput:
    """What a model says about each kept position.

    Attributes:
        logits: a score for every token of the vocabulary; softmax makes them the next token's
            probabilities.
    """

    logits: Float[Tensor, "batch kept vocabulary"]


class DecoderLayer(nn.Module):
    """Adds to each token what attention gathers for it, then what feed-forward makes of it.

    ``x ← x + attention(norm(x))`` then ``x ← x + feed_forward(norm(x))``

    Args:
        config: sizes of the model.
        site: where this layer's attention stands in it.
    """

    def __init__(self, config: TransformerConfig, *, site: Site) -> None:
        super().__init__()
        self.attention_norm = RMSNorm(config.d_model, epsilon=config.norm_epsilon)
        self.attention = MultiHeadAttention(
            config.d_model,
            heads=config.heads,
            kv_heads=config.kv_heads,
            d_k=config.d_k,
            d_v=config.d_v,
            bias=config.attention_bias,
            site=site,
        )
        self.feed_forward_norm = RMSNorm(config.d_model, epsilon=config.norm_epsilon)
        self.feed_forward = FeedForward(config.d_model, config.d_ff, bias=config.feed_forward_bias)

    def forward(
        self, x: Float[Tensor, "batch n d_model"], *, rule: ScoreRule, phases: Phases
    ) -> Float[Tensor, "batch n d_model"]:
        """Run one layer.

        Args:
            x: the residual stream.
            rule: how scores are made.
            phases: angles of the tokens' positions.

        Returns:
            The residual stream with both updates added.
        """
        x = x + self.attention(self.attention_norm(x), rule=rule, phases=phases)
        return x + self.feed_forward(self.feed_forward_norm(x))


class Transformer(nn.Module):
    """A decoder: predicts, at every position, the token that comes next.

    Args:
        config: every size and choice. Weights start as PyTorch starts them; :meth:`from_folder`
            loads trained ones.

    Source: Vaswani et al. 2017, "Attention Is All You Need"; in the form of Touvron et al. 2023,
    "LLaMA: Open and Efficient Foundation Language Models", section 2.2.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.token_embedding = nn.Embedding(config.vocabulary_size, config.d_model)
        self.positions = RotaryEmbedding(config.d_k, config.rotary_theta, config.rotary_scaling)
        self.layers = nn.ModuleList(
            DecoderLayer(config, site=Site(layer, "self", f"layers.{layer}.attention"))
            for layer in range(config.layers)
        )
        self.final_norm = RMSNorm(config.d_model, epsilon=config.norm_epsilon)
        self.to_logits = nn.Linear(config.d_model, config.vocabulary_size, bias=False)
        self._tie()

    def forward(
        self,
        ids: Int[Tensor, "batch n"],
        *,
        attention_mask: Bool[Tensor, "batch n"] | Int[Tensor, "batch n"] | None = None,
        logits_to_keep: int | Int[Tensor, "kept"] = 0,
    ) -> TransformerOutput:
        """Score every possible next token at the kept positions.

        Args:
            ids: tokens by number.
            attention_mask: 1 where a token is real, 0 where it only fills up its row; None is all
                real. Filling changes nothing for real tokens, on whichever side it stands.
            logits_to_keep: 0 keeps all positions, k the last k, a tensor the positions it lists.

        Returns:
            The logits.

        Raises:
            InputError: ids, mask or positions do not fit; all faults at once.

        Cost: time grows with n², memory with n.
        """
        vocabulary = self.config.vocabulary_size
        _check(ids, attention_mask, logits_to_keep, vocabulary=vocabulary)
        real = _real(attention_mask)
        x = self.token_embedding(ids)
        phases = self.positions.phases(_positions(ids, real), dtype=x.dtype)
        rule = ScoreRule(scale=self.config.d_k**-0.5, mask=_mask(real))
        for layer in self.layers:
            x = layer(x, rule=rule, phases=phases)
        x = _kept(self.final_norm(x), logits_to_keep)
        return TransformerOutput(logits=self.to_logits(x))

    def sites(self) -> tuple[Site, ...]:
        """Where attention happens, in order: what a tap will see."""
        return tuple(attention.site for attention in self._attentions())

    def output_projection(
        self, site: Site
    ) -> tuple[Float[Tensor, "d_model width"], Float[Tensor, "d_model"] | None]:
        """W_O of one layer as (d_model, heads · d_v), and its bias or None.

        Args:
            site: one of :meth:`sites`.

        Raises:
            InputError: this model has no such site.
        """
        for attention in self._attentions():
            if attention.site == site:
                return attention.output_projection()
        raise InputError(f"site must be one of this model's {self.config.layers} sites, got {site}")

    @classmethod
    def from_folder(
        cls,
        folder: str | Path,
        *,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> "Transformer":
        """Load a released model: ``config.json`` beside weights in safetensors.

        Args:
            folder: where the files lie.
            dtype: dtype of the weights in memory. Where it is the file's, on the CPU, the weights
                stay mapped to the file and are read when they are first used.
            device: where the weights go.

        Returns:
            The model, in evaluation mode.

        Raises:
            CheckpointError: a file is missing or unreadable, a setting is not known, or tensors are
                missing, unexpected or misshaped.
        """
        found = read_folder(Path(folder))
        with torch.device("meta"), Undrawn():
            model = cls(from_hugging_face(found.config))
        model._assign(found, dtype=dtype, device=device)
        return model.eval()

    def _assign(
        self, folder: ModelFolder, *, dtype: torch.dtype, device: torch.device | str
    ) -> None:
        """Replace every parameter by the one the folder holds under the family's name."""
        family = FAMILIES[folder.family]
        shapes = {name: parameter.shape for name, parameter in self.named_parameters()}
        theirs = {name: family.tensor_name(name) for name in shapes}
        tied = {"to_logits.weight": "token_embedding.weight"} if self.config.tied_embeddings else {}
        tensors = read_weights(
            folder.files,
            {theirs[name]: shape for name, shape in shapes.items()},
            ties={family.tensor_name(name): theirs[twin] for name, twin in tied.items()},
            dtype=dtype,
            device=device,
        )
        self.load_state_dict(
            {name: tensors[theirs[tied.get(name, name)]] for name in self.state_dict()}, assign=True
        )
        self._tie()

    def _tie(self) -> None:
        if self.config.tied_embeddings:
            self.to_logits.weight = self.token_embedding.weight

    def _attentions(self) -> list[MultiHeadAttention]:
        return [module for module in self.modules() if isinstance(module, MultiHeadAttention)]


def _check(
    ids: Tensor, attention_mask: Tensor | None, keep: int | Tensor, *, vocabulary: int
) -> None:
    faults: list[str] = []
    if ids.dim() != 2:
        faults.append(f"ids must be (batch, n), got shape {tuple(ids.shape)}")
    if ids.is_floating_point():
        faults.append(f"ids must be whole numbers, got {ids.dtype}")
    if attention_mask is not None and attention_mask.shape != ids.shape:
        faults.append(
            f"attention_mask must have the shape of ids {tuple(ids.shape)}, "
            f"got {tuple(attention_mask.shape)}"
        )
    if isinstance(keep, Tensor) and keep.dim() != 1:
        faults.append(f"logits_to_keep must list positions, got shape {tuple(keep.shape)}")
    if isinstance(keep, int) and keep < 0:
        faults.append(f"logits_to_keep must be 0 (all) or how many last positions, got {keep}")
    faults += _outside("ids", ids, range(vocabulary))
    if isinstance(keep, Tensor):
        faults += _outside("logits_to_keep", keep, range(-ids.shape[-1], ids.shape[-1]))
    if faults:
        raise InputError(gathered("the model cannot read this", faults))


def _outside(name: str, values: Tensor, allowed: range) -> list[str]:
    # Looking at values would split a compiled graph.
    if not values.numel() or torch.compiler.is_compiling():
        return []
    low, high = (bound.item() for bound in torch.aminmax(values))
    if allowed.start <= low and high < allowed.stop:
        return []
    return [f"{name} must lie in {allowed.start} … {allowed.stop - 1}, got {low} … {high}"]


def _real(attention_mask: Tensor | None) -> Bool[Tensor, "batch n"] | None:
    """Which tokens are real; None where all are, so that no mask is made for nothing."""
    real = None if attention_mask is None else attention_mask.bool()
    return None if real is None or bool(real.all()) else real


def _mask(real: Bool[Tensor, "batch n"] | None) -> Mask:
    return causal_mask() if real is None else causal_mask() & padding_mask(real)


def _positions(ids: Tensor, real: Bool[Tensor, "batch n"] | None) -> Int[Tensor, "#batch n"]:
    """Number the real tokens of each row from 0 on, wherever padding stands."""
    if real is None:
        return torch.arange(ids.shape[1], device=ids.device).unsqueeze(0)
    return (real.long().cumsum(-1) - 1).clamp(min=0)


def _kept(
    x: Float[Tensor, "batch n d_model"], keep: int | Tensor
) -> Float[Tensor, "batch kept d_model"]:
    return x[:, keep] if isinstance(keep, Tensor) else x[:, -keep:]
