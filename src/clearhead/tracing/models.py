"""What a model must offer to be traced, and the offer of our own Transformer.

Two kinds of model meet here: one that sends its quantities through the tap itself and says where
its sites are (:class:`SelfTapped`), and a transformers model, which ``huggingface`` teaches to.
"""

from collections.abc import Callable, Collection, Generator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from clearhead.errors import TraceError, UnsupportedError
from clearhead.native.linear import linear
from clearhead.pipeline.indexing import distinct
from clearhead.pipeline.tap import Site

__all__ = [
    "EncoderDecoder",
    "OutputProjection",
    "SelfTapped",
    "Source",
    "TraceableModel",
    "evaluating",
    "is_encoder_decoder",
    "traceable",
]


@dataclass(frozen=True, eq=False, slots=True)
class OutputProjection:
    """W_O of one layer.

    Attributes:
        weight: (d_model, heads · d_v); a view of the model's own weight.
        bias: (d_model,), or None.
        product: what the model multiplies rows with it by; each rounds in its own way.
    """

    weight: Float[Tensor, "d_model width"]
    bias: Float[Tensor, "d_model"] | None
    product: Callable[[Tensor, Tensor, Tensor | None], Tensor] = nn.functional.linear

    def __call__(self, joined: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch d_model"]:
        """``O = concat(C) · W_O + b_O``, by the call the model itself makes."""
        # under autocast the model multiplied in C's dtype, and a trace may lie on another device
        bias = None if self.bias is None else self.bias.to(joined)
        return self.product(joined, self.weight.to(joined), bias)


@dataclass(frozen=True, eq=False, slots=True)
class EncoderDecoder:
    """What a trace must know of a model whose decoder looks at what an encoder made.

    Attributes:
        source_length: positions its encoder was made for, or None.
        start_tokens: what its decoder begins with; empty where that is not known.
    """

    source_length: int | None
    start_tokens: tuple[int, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Source:
    """What an encoder reads.

    Attributes:
        ids: (batch, m).
        attention_mask: True where a token is real; None is all.
    """

    ids: Int[Tensor, "batch m"]
    attention_mask: Bool[Tensor, "batch m"] | None


class TraceableModel(Protocol):
    """What a trace asks of a model."""

    name: str
    origin: str
    context_length: int | None
    tokenizer: object
    encoder_decoder: EncoderDecoder | None
    counts_real_tokens: bool  # whether a token's position counts real ones, wherever padding stands

    def sites(self) -> tuple[Site, ...]:
        """Every attention layer that must be seen."""
        ...

    def running(self) -> AbstractContextManager[None]:
        """A context in which the model's quantities pass through the tap."""
        ...

    def logits(
        self,
        ids: Int[Tensor, "batch n"],
        *,
        attention_mask: Bool[Tensor, "batch n"] | None,
        last: Int[Tensor, "batch"],
        source: Source | None = None,
        cache: object = None,
    ) -> Float[Tensor, "batch vocabulary"] | None:
        """Run the model; each row's logits at its last real position, or None without a head.

        An encoder-decoder, and only that, is given a source; ``ids`` are then its target. A model
        that reads on from a cache may be given one; ``ids`` are then what follows.
        """
        ...

    def output_projection(self, site: Site) -> OutputProjection | None:
        """W_O of a layer, known at the latest after a run; None where it could not be found."""
        ...

    @property
    def resting(self) -> Collection[Site]:
        """Layers of which nothing ran in the last run, and which therefore were not seen."""
        ...

    @property
    def misread(self) -> Collection[Site]:
        """Layers of the last run whose output, as the tap saw it, is a part of O."""
        ...


@runtime_checkable
class SelfTapped(Protocol):
    """A model that sends its quantities through the tap by itself, as our own Transformer does.

    Its attention layers call :func:`clearhead.pipeline.tap.attend`, and :func:`visit` for X and O.
    A trace calls it as ``model(ids, attention_mask=, logits_to_keep=)``: ids are (batch, n);
    ``attention_mask`` is bool, True where a token is real, or None; ``logits_to_keep`` holds the
    positions, (k,), whose logits are wanted. What it returns has ``logits``, (batch, k,
    vocabulary), or None where the model has no head.

    One with a site of the kind ``"cross"`` is an encoder-decoder: it has ``encode(ids,
    attention_mask=)`` too, and is called with what that returned as ``source=``.

    What it may have besides: ``config.context_length`` and ``config.encoder.context_length``, and
    ``clearhead_name``, ``clearhead_origin``, ``clearhead_tokenizer`` and
    ``clearhead_start_tokens`` (ids that a decoder with an encoder begins with), as a loader writes
    them.
    """

    def sites(self) -> tuple[Site, ...]:
        """Where attention happens, in order."""
        ...

    def output_projection(self, site: Site) -> tuple[Tensor, Tensor | None]:
        """W_O as (d_model, heads · d_v), and its bias or None."""
        ...


class _Own:
    """Our own Transformer, which needs no teaching."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self.name: str = getattr(model, "clearhead_name", type(model).__name__)
        self.origin: str = getattr(model, "clearhead_origin", "")
        self.tokenizer: object = getattr(model, "clearhead_tokenizer", None)
        config = getattr(model, "config", None)
        self.context_length: int | None = getattr(config, "context_length", None)
        self.encoder_decoder: EncoderDecoder | None = None
        if is_encoder_decoder(model):
            self.encoder_decoder = EncoderDecoder(
                source_length=getattr(getattr(config, "encoder", None), "context_length", None),
                start_tokens=tuple(getattr(model, "clearhead_start_tokens", ())),
            )
        self.counts_real_tokens = True
        self.misread: Collection[Site] = ()
        self.resting: Collection[Site] = ()

    def sites(self) -> tuple[Site, ...]:
        """As the model says."""
        return self._model.sites()

    @contextmanager
    def running(self) -> Generator[None]:
        """Put the model in evaluation mode; each part is put back."""
        with evaluating(self._model):
            yield

    def logits(
        self,
        ids: Tensor,
        *,
        attention_mask: Tensor | None,
        last: Tensor,
        source: Source | None = None,
        cache: object = None,
    ) -> Tensor | None:
        """Only the positions asked for are multiplied by the vocabulary."""
        kept, given = distinct(last), dict[str, Any]()
        if cache is not None:
            given["cache"] = cache
        if source is not None:
            given["source"] = self._model.encode(source.ids, attention_mask=source.attention_mask)
        output = self._model(
            ids, attention_mask=attention_mask, logits_to_keep=kept.values, **given
        )
        if output.logits is None:
            return None
        return output.logits[torch.arange(len(ids), device=ids.device), kept.places]

    def output_projection(self, site: Site) -> OutputProjection | None:
        """As the model says."""
        try:
            weight, bias = self._model.output_projection(site)
        except UnsupportedError:
            return None
        return OutputProjection(weight.detach(), None if bias is None else bias.detach(), linear)


@contextmanager
def evaluating(model: nn.Module) -> Generator[None]:
    """Put a model in evaluation mode, and each part back in its own afterwards.

    Args:
        model: the model.
    """
    training = [part for part in model.modules() if part.training]
    model.eval()
    try:
        yield
    finally:
        for part in training:
            part.training = True


def is_encoder_decoder(model: object) -> bool:
    """Whether a model has two texts to read.

    Args:
        model: any object.
    """
    if isinstance(model, SelfTapped):
        return any(site.kind == "cross" for site in model.sites())
    config = getattr(model, "config", None)
    return _is_transformers(model) and bool(getattr(config, "is_encoder_decoder", False))


def traceable(model: object) -> TraceableModel:
    """Find out how a model is traced.

    Args:
        model: our Transformer, any module that offers :class:`SelfTapped`, or a transformers model.

    Returns:
        What a trace asks of it.

    Raises:
        TraceError: the model is of no kind that can be traced, and why.
    """
    if isinstance(model, SelfTapped):
        return _Own(model)
    if _is_transformers(model):
        from clearhead.tracing.huggingface import HuggingFaceModel

        return HuggingFaceModel(model)
    raise TraceError(
        f"{type(model).__name__} cannot be traced: expected a clearhead Transformer, a whole "
        "transformers model, or a module that sends its quantities through clearhead's tap and "
        "offers sites(), output_projection(site) and "
        "model(ids, attention_mask=, logits_to_keep=).logits"
    )


def _is_transformers(model: object) -> bool:
    """Whether this is a whole model of transformers, and none of its layers; imports nothing."""
    return any(
        kind.__name__ == "PreTrainedModel" and kind.__module__.startswith("transformers.")
        for kind in type(model).__mro__
    )
