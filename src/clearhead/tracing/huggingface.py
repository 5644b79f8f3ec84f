"""transformers models at the tap: our attention and mask registered, and their modules watched."""

import inspect
import re
from collections.abc import Collection, Generator
from contextlib import ExitStack, contextmanager
from typing import Any, cast

import torch
import transformers
from torch import Tensor, nn

from clearhead.errors import InputError, TraceError, UnsupportedError
from clearhead.pipeline.indexing import distinct
from clearhead.pipeline.tap import Site
from clearhead.tracing.huggingface_attention import attention_function
from clearhead.tracing.huggingface_masks import lazy_mask
from clearhead.tracing.huggingface_watch import Watch, watch_of
from clearhead.tracing.models import EncoderDecoder, OutputProjection, Source, evaluating

__all__ = ["NAME", "HuggingFaceModel", "register_attention"]

#: What ``attn_implementation=`` is told.
NAME = "clearhead"
_LENGTHS = ("max_position_embeddings", "n_positions", "max_seq_len")

_transformers = cast("Any", transformers)  # what is registered there has no type


def register_attention() -> None:
    """Register clearhead's attention with transformers, function and mask together.

    Afterwards ``attn_implementation="clearhead"`` is accepted wherever transformers' attention
    interface is, at load or by ``model.set_attn_implementation("clearhead")``. Calling it again
    does no harm.

    Cost: none; a model then takes linear memory in its length, masks included.
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
        self.encoder_decoder: EncoderDecoder | None = None
        self._first_position = _first_position(model)
        lengths = [getattr(config, name, None) for name in _LENGTHS]
        rows = next((n for n in lengths if isinstance(n, int)), None)
        self.context_length: int | None = None if rows is None else rows - self._first_position
        self._refuse()
        self._modules = _attention_modules(model)
        self._watch = self._own_watch()

    def sites(self) -> tuple[Site, ...]:
        """Every module that computes attention, in the model's own order."""
        return tuple(self._modules)

    def output_projection(self, site: Site) -> OutputProjection | None:
        """The linear layer that alone was handed this site's context; None where none was."""
        return self._watch.projections.get(site)

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
        assert source is None, "encoder-decoders are refused"
        assert cache is None, "a cache of ours is refused"
        model = self._model
        self._check(ids)
        kept = distinct(last)
        takes = inspect.signature(model.forward).parameters
        extra: dict[str, Any] = {}
        if "logits_to_keep" in takes:
            extra["logits_to_keep"] = kept.values
        if "use_cache" in takes:
            extra["use_cache"] = False
        if attention_mask is not None and "position_ids" in takes:
            places = (attention_mask.long().cumsum(-1) - 1).clamp(min=0)
            extra["position_ids"] = places + self._first_position
        output = model(input_ids=ids, attention_mask=attention_mask, **extra)
        logits = getattr(output, "logits", None)
        # a head that does not say words (a classifier's) has no output embeddings
        if logits is None or logits.ndim != 3 or model.get_output_embeddings() is None:
            return None
        row = torch.arange(len(ids), device=ids.device)
        return logits[row, kept.places if "logits_to_keep" in extra else last]

    @contextmanager
    def running(self) -> Generator[None]:
        """Switch the model to our attention, in evaluation mode, and watch it; all is put back."""
        register_attention()
        self._watch = self._own_watch()
        with ExitStack() as undo:
            if undo.enter_context(self._watch.watching(self._model)):
                undo.enter_context(evaluating(self._model))
                undo.enter_context(_switched(self._model))
            try:
                yield
            except UnsupportedError as error:
                raise TraceError(f"{self.name} cannot be traced: {error}") from error

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
        name, config = type(self._model).__name__, self._model.config
        if getattr(config, "is_encoder_decoder", False):
            raise TraceError(
                f"{name} cannot be traced yet: it is an encoder-decoder of transformers; load it "
                "as clearhead's own Transformer, as from_pretrained does for T5 and BART"
            )
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


def _attention_modules(model: nn.Module) -> dict[Site, nn.Module]:
    """The innermost modules called attention: those that hold no other."""
    modules: dict[str, nn.Module] = dict(cast("Any", model).named_modules())
    named = [
        name
        for name, module in modules.items()
        if re.search(r"Attention(?!.*Output)", type(module).__name__)
    ]
    inner = [name for name in named if not any(other.startswith(f"{name}.") for other in named)]
    if not inner:
        raise TraceError(
            f"{type(model).__name__} cannot be traced: none of its modules is called attention"
        )
    return {Site(layer, "self", name): modules[name] for layer, name in enumerate(inner)}


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
