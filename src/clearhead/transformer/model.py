"""The Transformer: token ids in, logits out.

A stream of vectors, one a token, runs through the layers; each layer reads it and adds to it.

    ids ─▶ embedding ─▶ x ─▶ layer ─▶ … ─▶ layer ─▶ final_norm ─▶ to_logits ─▶ logits

    layer:  x ─┬─▶ attention_norm ─▶ attention ─▶ + ─┬─▶ feed_forward_norm ─▶ feed_forward ─▶ + ─▶
               └─────────────────────────────────────┘└────────────────────────────────────────┘

A decoder that reads an encoder has cross-attention between the two.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast, overload

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from clearhead.errors import InputError
from clearhead.pipeline.tap import Site
from clearhead.transformer.attention import MultiHeadAttention
from clearhead.transformer.cache import KVCache
from clearhead.transformer.cache_gradients import without_backward
from clearhead.transformer.calls import Encoded
from clearhead.transformer.config import TransformerConfig
from clearhead.transformer.input_faults import check_inputs
from clearhead.transformer.linear import Linear
from clearhead.transformer.logits import Logits
from clearhead.transformer.stack import Stack

if TYPE_CHECKING:
    from clearhead.transformer.saving import Saved

__all__ = ["Transformer", "TransformerOutput"]


@dataclass(frozen=True, eq=False)
class TransformerOutput:
    """What a model says about each kept position.

    Attributes:
        logits: a score for every token of the vocabulary; softmax makes them probabilities, of the
            next token for a decoder, of this one for an encoder. None where the model has none.
        hidden: the residual stream after the last layer.
        pooled: the first real token's vector through the pooler, or None where the model has none.
    """

    logits: Float[Tensor, "batch kept vocabulary"] | None
    hidden: Float[Tensor, "batch kept d_model"]
    pooled: Float[Tensor, "batch d_model"] | None = None


class Transformer(Stack):
    """A decoder, an encoder, or both: every layer is there to be read, and each is a few lines.

    Args:
        config: every size and choice. Weights start as PyTorch starts them;
            :func:`clearhead.from_pretrained` loads trained ones.

    Source: Vaswani et al. 2017, "Attention Is All You Need".
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config)
        self.encoder = None if config.encoder is None else Stack(config.encoder, name="encoder.")
        self.pooler = Linear(config.d_model, config.d_model) if config.pooler else None
        self.to_logits = Logits(config) if config.predicts else None
        self.tie()

    def forward(
        self,
        ids: Int[Tensor, "batch n"],
        *,
        attention_mask: Bool[Tensor, "batch n"] | Int[Tensor, "batch n"] | None = None,
        source: Encoded | None = None,
        documents: Int[Tensor, "batch n"] | None = None,
        token_types: Int[Tensor, "batch n"] | None = None,
        cache: KVCache | None = None,
        logits_to_keep: int | Int[Tensor, "kept"] = 0,
    ) -> TransformerOutput:
        """Run the model over some tokens.

        Args:
            ids: tokens by number; with a cache, those that follow what it holds.
            attention_mask: 1 where one of them is real, 0 where it only fills up its row; None is
                all real. Filling changes nothing for real tokens, on whichever side it stands.
            source: what :meth:`encode` made of the text that a decoder with an encoder looks at; as
                long as a cache holds anything, the same.
            documents: which text of several packed in a row each token belongs to, 0 or more; a
                token sees its own text only, and positions begin anew.
            token_types: which type each has, where the model tells types apart; None is type 0.
            cache: keys and values of what was read before; the tokens are added to it.
            logits_to_keep: 0 keeps all positions, k the last k or as many as there are, a tensor
                the positions it lists.

        Returns:
            Logits, last vectors and the pooled vector, each where the model has it.

        Raises:
            InputError: ids, mask, positions, source or cache do not fit; all faults at once.

        Cost: time grows with n · m for n tokens and m keys, memory with n and m.
        """
        check_inputs(
            self.config,
            ids,
            attention_mask=attention_mask,
            documents=documents,
            token_types=token_types,
            source=source,
            cache=cache,
            keep=logits_to_keep,
        )
        real = real_tokens(attention_mask)
        ids, token_types = _blank(ids, real), _blank(token_types, real)
        if cache is None:
            x = self.hidden(
                ids, real=real, documents=documents, token_types=token_types, source=source
            )
        else:
            x = self._after_cache(ids, real=real, cache=cache, source=source)
            x = without_backward(x, *(() if source is None else (source.hidden,)))
        pooled = None if self.pooler is None else self.pooler(_first(x, real)).tanh()
        many, x = x.shape[1] > 1, _kept(x, logits_to_keep)
        logits = None if self.to_logits is None else self.to_logits(x, of_many=many)
        return TransformerOutput(logits=logits, hidden=x, pooled=pooled)

    def encode(
        self,
        ids: Int[Tensor, "batch m"],
        *,
        attention_mask: Bool[Tensor, "batch m"] | Int[Tensor, "batch m"] | None = None,
    ) -> Encoded:
        """Read the text that the decoder is to look at.

        Args:
            ids: its tokens by number.
            attention_mask: 1 where one is real, 0 where it only fills up its row.

        Returns:
            What to give as ``source``.

        Raises:
            InputError: the model has no encoder, or ids or mask do not fit.
        """
        if self.encoder is None:
            raise InputError("encode: this model has no encoder; call the model itself")
        check_inputs(self.encoder.config, ids, attention_mask=attention_mask)
        real = real_tokens(attention_mask)
        return Encoded(self.encoder.hidden(_blank(ids, real), real=real), real)

    def save_pretrained(
        self,
        folder: str | os.PathLike[str],
        *,
        spelling: Literal["transformers", "clearhead"] | None = None,
        max_shard_size: int | str = "5GB",
    ) -> "Saved":
        """Write the model to a folder, whole or not at all.

        Args:
            folder: where to; a model that stands there is replaced.
            spelling: ``"transformers"`` insists on what transformers reads back, ``"clearhead"`` on
                our own spelling, which tells every model; None is the first that fits.
            max_shard_size: the most bytes of one file, as a number or as ``"5GB"``.

        Returns:
            What was written, and in which spelling.

        Raises:
            InputError: the spelling or the size means nothing.
            UnsupportedError: no released family has this shape, and ``spelling`` insists on one.
            CheckpointError: the folder cannot be written.
        """
        from clearhead.transformer.saving import save

        return save(self, folder, spelling=spelling, max_shard_size=max_shard_size)

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
        raise InputError(f"site must be one of this model's {len(self.sites())} sites, got {site}")

    def tie(self) -> None:
        """Make one parameter of those that the configuration says are the same."""
        shared = cast("nn.Parameter", self.token_embedding.weight)
        if self.encoder is not None:
            self.encoder.token_embedding.weight = shared
        if self.config.tied_embeddings and self.to_logits is not None:
            self.to_logits.weight = shared

    def _after_cache(
        self, ids: Tensor, *, real: Tensor | None, cache: KVCache, source: Encoded | None
    ) -> Tensor:
        """The last vectors of tokens that follow what a cache holds; they are added to it."""
        step = cache.step(real, rows=len(ids), tokens=ids.shape[1], source=source)
        if not step.outgrown:
            x = self.hidden(ids, real=real, step=step, source=source)
            step.done(ids)
            return x
        width, ends = max(step.ends), torch.tensor(step.ends, device=ids.device)
        text, places = step.text(ids)[:, :width], step.positions(ids.device)
        whole = torch.arange(width, device=ids.device) < ends[:, None]
        with cache.rereading():
            again = cache.step(whole, rows=len(ids), tokens=width, source=source)
            x = self.hidden(text, real=whole, step=again, source=source)
            again.done(text)
        return x.take_along_dim(places.expand(len(ids), -1)[..., None], 1)

    def _attentions(self) -> Iterator[MultiHeadAttention]:
        stacks = (self,) if self.encoder is None else (self.encoder, self)
        for stack in stacks:
            for module in stack.layers.modules():
                if isinstance(module, MultiHeadAttention):
                    yield module


def real_tokens(attention_mask: Tensor | None) -> Bool[Tensor, "batch n"] | None:
    """Which tokens are real; None where all are, so that no mask is made for nothing.

    Args:
        attention_mask: 1 where one is real.
    """
    real = None if attention_mask is None else attention_mask.bool()
    return None if real is None or bool(real.all()) else real


@overload
def _blank(ids: Tensor, real: Tensor | None) -> Tensor: ...
@overload
def _blank(ids: Tensor | None, real: Tensor | None) -> Tensor | None: ...
def _blank(ids: Tensor | None, real: Tensor | None) -> Tensor | None:
    """Ids with 0 for all padding, so that what stood there cannot matter, to experts either."""
    return ids if ids is None or real is None else ids.masked_fill(~real, 0)


def _first(
    x: Float[Tensor, "batch n d_model"], real: Bool[Tensor, "batch n"] | None
) -> Float[Tensor, "batch d_model"]:
    """The vector of each row's first real token."""
    if real is None:
        return x[:, 0]
    return x[torch.arange(len(x), device=x.device), real.int().argmax(-1)]


def _kept(
    x: Float[Tensor, "batch n d_model"], keep: int | Tensor
) -> Float[Tensor, "batch kept d_model"]:
    return x[:, keep] if isinstance(keep, Tensor) else x[:, -min(int(keep), x.shape[1]) :]
