"""transformers models at the tap: our attention and mask registered, and their modules watched."""

import inspect
from collections.abc import Collection, Generator
from contextlib import ExitStack, contextmanager
from typing import Any, Literal, cast

import torch
import transformers
from torch import Tensor, nn

from clearhead.errors import InputError, TraceError, UnsupportedError
from clearhead.pipeline.indexing import distinct
from clearhead.pipeline.tap import Site
from clearhead.tracing.huggingface_attention import attention_function
from clearhead.tracing.huggingface_bias import lazy_biases
from clearhead.tracing.huggingface_masks import lazy_mask
from clearhead.tracing.huggingface_sites import attention_sites
from clearhead.tracing.huggingface_watch import Watch, watch_of
from clearhead.tracing.models import (
    EncoderDecoder,
    OutputProjection,
    Source,
    evaluating,
    is_encoder_decoder,
)

__all__ = ["NAME", "HuggingFaceModel", "register_attention"]

#: What ``attn_implementation=`` is told.
NAME = "clearhead"
_LENGTHS = ("max_position_embeddings", "n_positions", "max_seq_len")
_STACK_LENGTHS = {"encoder": ("max_source_positions",), "decoder": ("max_target_positions",)}

_transformers = cast("Any", transformers)  # what is registered there has no type


def register_attention() -> None:
    """Register clearhead's attention with transformers, function and mask together.

    Afterwards ``attn_implementation="clearhead"`` is accepted wherever transformers' attention
    interface is, at load or by ``model.set_attn_implementation("clearhead")``. Calling it again
    does no harm.

    Cost: none; a model then takes linear memory in its length, masks included, but for a bias by
    position that it writes out itself (T5 and its kin do, save while they are traced).
    """
    _transformers.AttentionInterface.register(NAME, attention_function)
    _transformers.AttentionMaskInterface.register(NAME, lazy_mask)


class HuggingFaceModel:
    """A transformers model, taught to send its quantities through the tap while it is watched."""

    def __init__(self, model: Any) -> None:
        self._model = model
        config = model.config
        self.name: str = (
            getattr(model, "clearhead_name", "") or config.name_or_path or type(model).__name__
        )
        self.origin: str = getattr(model, "clearhead_origin", "") or str(model.dtype)[6:]
        self.tokenizer: object = getattr(model, "clearhead_tokenizer", None)
        self.counts_real_tokens = "position_ids" in inspect.signature(model.forward).parameters
        self._first_position = _first_position(model)
        self.context_length = self._positions("decoder")
        self._refuse()
        self.encoder_decoder = self._pair()
        self._modules = attention_sites(model)
        self._watch = self._own_watch()

    def sites(self) -> tuple[Site, ...]:
        """Every module that computes attention, in the model's own order."""
        return tuple(self._modules)

    def output_projection(self, site: Site) -> OutputProjection | None:
        """The linear layer that alone was handed this site's context; None where none was."""
        return self._watch.projections.get(site)

    @property
    def resting(self) -> Collection[Site]:
        """Sites that had nothing to do in the last run: cross-attention without another text."""
        return self._modules.keys() - self._watch.ran

    @property
    def misread(self) -> Collection[Site]:
        """Sites whose context a second layer read: what the first one gave is a part of O."""
        return self._watch.misread

    def logits(
        self,
        ids: Tensor,
        *,
        attention_mask: Tensor | None,
        last: Tensor,
        source: Source | None = None,
        cache: object = None,
    ) -> Tensor | None:
        """Run the model without a cache; only the positions asked for reach the vocabulary."""
        assert cache is None, "a cache of ours is refused"
        model = self._model
        self._check(ids)
        kept = distinct(last)
        takes = inspect.signature(model.forward).parameters
        extra: dict[str, Any] = {}
        if source is not None:
            self._check(source.ids)
            extra["decoder_input_ids"] = ids
            ids, attention_mask = source.ids, source.attention_mask
        if "logits_to_keep" in takes:
            extra["logits_to_keep"] = kept.values
        if "use_cache" in takes:
            extra["use_cache"] = False
        if attention_mask is not None and self.counts_real_tokens:
            places = (attention_mask.long().cumsum(-1) - 1).clamp(min=0)
            extra["position_ids"] = places + self._first_position
        output = model(input_ids=ids, attention_mask=attention_mask, **extra)
        logits = getattr(output, "logits", None)
        # a head that does not say words (a classifier's) has no output embeddings
        if logits is None or logits.ndim != 3 or model.get_output_embeddings() is None:
            return None
        row = torch.arange(len(logits), device=logits.device)
        return logits[row, kept.places if "logits_to_keep" in extra else last]

    @contextmanager
    def running(self) -> Generator[None]:
        """Switch the model to our attention, in evaluation mode, and watch it; all is put back."""
        register_attention()
        self._watch = self._own_watch()
        with ExitStack() as undo:
            if undo.enter_context(self._watch.watching(self._model)):
                undo.enter_context(evaluating(self._model))
                undo.enter_context(lazy_biases(self._model))
                undo.enter_context(_switched(self._model))
            try:
                yield
            except UnsupportedError as error:
                raise TraceError(f"{self.name} cannot be traced: {error}") from error

    def _positions(self, stack: Literal["encoder", "decoder"]) -> int | None:
        """How many tokens one of its stacks was made for; None is any number."""
        config = self._model.config.get_text_config(**{stack: True})
        if hasattr(config, "relative_attention_num_buckets"):
            return None
        named = [*_STACK_LENGTHS[stack], *_LENGTHS] if config.is_encoder_decoder else _LENGTHS
        lengths = [getattr(config, name, None) for name in named]
        rows = next((n for n in lengths if isinstance(n, int)), None)
        return None if rows is None else rows - self._first_position

    def _pair(self) -> EncoderDecoder | None:
        if not is_encoder_decoder(self._model):
            return None
        start = getattr(self._model.config, "decoder_start_token_id", None)
        return EncoderDecoder(self._positions("encoder"), () if start is None else (start,))

    def _own_watch(self) -> Watch:
        return watch_of({module: site for site, module in self._modules.items()})

    def _check(self, ids: Tensor) -> None:
        table = self._model.get_input_embeddings()
        if not isinstance(table, nn.Embedding):
            return
        low, high = (int(bound) for bound in torch.aminmax(ids))
        if low < 0 or high >= table.num_embeddings:
            raise InputError(f"ids must lie in 0 … {table.num_embeddings - 1}, got {low} … {high}")

    def _refuse(self) -> None:
        name = type(self._model).__name__
        if not self._model._can_set_attn_implementation():
            raise TraceError(
                f"{name} cannot be traced: its layers compute attention themselves, not through "
                "transformers' attention interface"
            )


def _first_position(model: nn.Module) -> int:
    """The position of a text's first token: RoBERTa and its kin keep those before for padding."""
    for module in model.modules():
        table = getattr(module, "position_embeddings", None)
        if isinstance(table, nn.Embedding) and table.padding_idx is not None:
            return table.padding_idx + 1
    return 0


@contextmanager
def _switched(model: Any) -> Generator[None]:
    """Our attention in every part of the model, and what was there before afterwards."""
    configs = {
        id(part.config): part.config
        for part in model.modules()
        if hasattr(part, "config") and hasattr(part.config, "_attn_implementation_internal")
    }
    before = {key: config._attn_implementation_internal for key, config in configs.items()}
    try:
        model.set_attn_implementation(NAME)
        yield
    except KeyError as error:
        if NAME not in str(error):
            raise
        raise TraceError(
            f"{type(model).__name__} cannot be traced: its layers know only attention "
            "implementations of their own"
        ) from error
    finally:
        for key, config in configs.items():
            config._attn_implementation_internal = before[key]
