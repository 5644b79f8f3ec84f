"""What a Transformer is made of, as plain values; imports no torch.

A :class:`TransformerConfig` fixes every shape and choice in a model, so what a model costs can be
told from it alone. One describes a decoder, an encoder, or, with an ``encoder`` inside it, both.
"""

from dataclasses import dataclass
from typing import Literal

from clearhead.errors import InputError, gathered
from clearhead.positions.kinds import Positions, Rotary
from clearhead.transformer.config_faults import config_faults

__all__ = ["Experts", "LayerKind", "QueryTemperature", "TransformerConfig"]

_ROTARY = Rotary()


@dataclass(frozen=True, kw_only=True)
class Experts:
    """A layer with many feed-forward parts, of which each token uses a few.

    Attributes:
        count: how many there are.
        chosen: how many each token uses; each is given the token times the sigmoid of its logit.
        d_ff: width inside each.
        shared: whether one more serves every token.

    Source: Shazeer et al. 2017, "Outrageously Large Neural Networks"; in the form of Llama 4.
    """

    count: int
    chosen: int
    d_ff: int
    shared: bool = True


@dataclass(frozen=True, kw_only=True)
class QueryTemperature:
    """Sharpens attention far into a text, where softmax over many keys would grow flat.

    Queries at position i are multiplied by ``1 + strength · log(1 + ⌊(i + 1) / floor⌋)``.

    Attributes:
        strength: how much.
        floor: positions before which nothing changes.

    Source: Nakanishi 2025, "Scalable-Softmax Is Superior for Attention"; in the form of Llama 4.
    """

    strength: float
    floor: float


@dataclass(frozen=True, kw_only=True)
class LayerKind:
    """What may differ from layer to layer.

    Attributes:
        window: how many keys a token sees, itself included; an encoder's sees as many on either
            side. None is all.
        chunk: tokens see only their own chunk of so many; None is no chunks.
        rotary: ``"model"`` turns queries and keys as the model's ``positions`` say, ``"none"`` not
            at all, and a value of its own in its own way.
        scale: factor on Q Kᵀ; None is the model's.
        temperature: sharpens queries by their position; None does not.
        experts: feed-forward parts to choose from; None is the one feed-forward part.
        d_ff: width inside the one feed-forward part; None is the model's.
    """

    window: int | None = None
    chunk: int | None = None
    rotary: Rotary | Literal["model", "none"] = "model"
    scale: float | None = None
    temperature: QueryTemperature | None = None
    experts: Experts | None = None
    d_ff: int | None = None


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """Every size and choice of a model; the defaults are those of a decoder like Llama.

    Attributes:
        vocabulary_size: number of different tokens.
        context_length: number of positions the model is made for; None is any.
        d_model: width of the residual stream.
        d_ff: width inside the feed-forward part.
        layers: number of layers.
        heads: number of query heads.
        kv_heads: number of key and value heads; each serves heads / kv_heads query heads. Left out
            (0), it becomes ``heads``.
        d_k: width of a query and of a key. Left out, it becomes d_model / heads.
        d_v: width of a value. Left out, it becomes d_k.
        kind: ``"decoder"`` looks back and predicts what comes next, ``"encoder"`` looks both ways.
        encoder: the encoder whose output a decoder reads by cross-attention; None is none.
        pattern: kinds of layers, repeated from the first layer to the last.
        positions: how a token's place is told; None not at all.
        embedding_scale: factor on the token embedding.
        embedding_norm: whether the embedding is normed before the first layer.
        token_types: number of vectors of which one is added to each token; 0 is none.
        norm: root mean square alone (``"rms"``), or mean and variance (``"layer"``).
        norm_epsilon: what a norm adds under its root.
        norm_offset: what is added to a norm's learned weights: 1 where they are learned as
            differences from 1.
        norm_place: a part of a layer reads normed vectors (``"before"``: pre-norm), its sum is
            normed (``"after"``: post-norm), or what it reads and what it adds (``"around"``).
        parallel: whether attention and feed-forward read the same vectors, side by side.
        final_norm: whether what leaves the last layer is normed.
        scale: factor on Q Kᵀ; None is 1/√d_k.
        softcap: scores are bent into (−softcap, softcap); None is no cap.
        query_key_norm: RMS norm of each head's queries and keys: with weights before rotation
            (``"head"``), without weights after it, in the layers that turn (``"rotated"``), or
            None.
        input_bias: whether W_Q, W_K and W_V have biases.
        output_bias: whether W_O has one.
        sinks: whether each head has a learned logit that takes part of each row.
        activation: of the feed-forward part.
        gated: whether it is gated: ``(act(x W_gate) · x W_up) W_down``.
        feed_forward_bias: whether its linear layers have biases.
        predicts: whether the model ends in logits over the vocabulary.
        logits_transform: whether a linear layer, the activation and a norm stand before them.
        logits_bias: whether they have a bias.
        logits_scale: factor on what they are made from.
        logits_softcap: they are bent into (−cap, cap); None is no cap.
        tied_embeddings: whether they are products with the token embedding itself.
        pooler: whether the first token's vector is also given through a linear layer and tanh.

    Raises:
        InputError: the values make no Transformer; all faults at once.
    """

    vocabulary_size: int
    context_length: int | None
    d_model: int
    d_ff: int
    layers: int
    heads: int
    kv_heads: int = 0
    d_k: int = 0
    d_v: int = 0
    kind: Literal["decoder", "encoder"] = "decoder"
    encoder: "TransformerConfig | None" = None
    pattern: tuple[LayerKind, ...] = (LayerKind(),)
    positions: Positions | None = _ROTARY
    embedding_scale: float = 1.0
    embedding_norm: bool = False
    token_types: int = 0
    norm: Literal["rms", "layer"] = "rms"
    norm_epsilon: float = 1e-6
    norm_offset: float = 0.0
    norm_place: Literal["before", "after", "around"] = "before"
    parallel: bool = False
    final_norm: bool = True
    scale: float | None = None
    softcap: float | None = None
    query_key_norm: Literal["head", "rotated"] | None = None
    input_bias: bool = False
    output_bias: bool = False
    sinks: bool = False
    activation: Literal["gelu", "gelu_tanh", "quick_gelu", "relu", "silu"] = "silu"
    gated: bool = True
    feed_forward_bias: bool = False
    predicts: bool = True
    logits_transform: bool = False
    logits_bias: bool = False
    logits_scale: float = 1.0
    logits_softcap: float | None = None
    tied_embeddings: bool = False
    pooler: bool = False

    def __post_init__(self) -> None:
        faults = config_faults(vars(self))
        if faults:
            raise InputError(gathered("these values make no Transformer", faults))
        for name, left_out in (
            ("kv_heads", self.heads),
            ("d_k", self.d_model // self.heads),
            ("d_v", self.d_k or self.d_model // self.heads),
        ):
            object.__setattr__(self, name, getattr(self, name) or left_out)

    def layer_kind(self, layer: int) -> LayerKind:
        """What is particular to a layer.

        Args:
            layer: its number, from 0.
        """
        return self.pattern[layer % len(self.pattern)]

    def rotary(self, layer: int) -> Rotary | None:
        """How a layer turns its queries and keys, or None.

        Args:
            layer: its number, from 0.
        """
        chosen = self.layer_kind(layer).rotary
        if chosen == "none":
            return None
        if chosen == "model":
            return self.positions if isinstance(self.positions, Rotary) else None
        return chosen
