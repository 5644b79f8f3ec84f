"""transformers models at the tap: our attention and mask registered with them, and their modules watched.

Their attention layers call the registered function with Q, K and V, which gives the tap everything up to
C. X and W_O are not part of that call, so they are *observed*: X is what the attention module is handed,
and W_O is the linear layer that is next handed exactly the C we returned. Nothing is guessed from names.
"""

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.pytorch_utils import Conv1D

from clearhead.errors import TraceError, UnsupportedError
from clearhead.masks import Mask, causal_mask, document_mask
from clearhead.pipeline.rule import ScoreRule
from clearhead.pipeline.tap import Site, attend, visit
from clearhead.tracing.huggingface_masks import LazyMask, lazy_mask
from clearhead.tracing.models import OutputProjection

__all__ = ["NAME", "HuggingFaceModel", "register_attention"]

#: What ``attn_implementation=`` is told.
NAME = "clearhead"
_LENGTHS = ("max_position_embeddings", "n_positions", "max_seq_len")


def register_attention() -> None:
    """Register clearhead's attention with transformers, function and mask together.

    Afterwards ``attn_implementation="clearhead"`` is accepted wherever transformers' attention interface
    is, at load or by ``model.set_attn_implementation("clearhead")``. Calling it again does no harm.

    Cost: none; a model then takes linear memory in its length, masks included.
    """
    AttentionInterface.register(NAME, _attention)
    AttentionMaskInterface.register(NAME, lazy_mask)


def _attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: LazyMask | Tensor | None,
    *,
    dropout: float = 0.0,
    scaling: float | None = None,
    **given: Any,
) -> tuple[Tensor, None]:
    """The attention function registered with transformers."""
    refused = [name for name in ("indices", "block_indices") if given.get(name) is not None]
    if dropout:
        refused.append(f"dropout={dropout} (call model.eval(), or set attention dropout to 0)")
    if refused:
        raise UnsupportedError(
            f"{type(module).__name__} asks attention for what clearhead does not do: {', '.join(refused)}"
        )
    rule = _rule(module, query, key, attention_mask, scaling=scaling, given=given)
    site = _SITES.get(id(module)) or Site(getattr(module, "layer_idx", None) or 0, "self", "")
    context = attend(query, key, value, rule=rule, site=site).context
    context = context.transpose(1, 2).contiguous()
    _RETURNED.update(pointer=context.data_ptr(), elements=context.numel(), site=site)
    return context, None


#: Which site an attention module is, while a model is being watched.
_SITES: dict[int, Site] = {}
#: The context last returned to a model: the linear layer that is handed it is W_O.
_RETURNED: dict[str, Any] = {}


def _rule(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    attention_mask: LazyMask | Tensor | None,
    *,
    scaling: float | None,
    given: dict[str, Any],
) -> ScoreRule:
    n, m = query.shape[2], key.shape[2]
    mask: Mask | None = None
    start: int | None = None
    key_start = 0
    bias: Tensor | None = given.get("position_bias")
    if isinstance(attention_mask, LazyMask):
        mask, start, key_start = (
            attention_mask.mask,
            attention_mask.query_start,
            attention_mask.key_start,
        )
    elif isinstance(attention_mask, Tensor):
        dense = attention_mask[..., :m]
        if dense.dtype == torch.bool:
            mask = Mask.from_tensor(dense)
        else:
            bias = dense if bias is None else bias + dense
    elif _is_causal(module, given) and n > 1:
        mask, start = causal_mask(), m - n
    ends = given.get("cu_seq_lens_k")
    if ends is not None:
        packed = document_mask(cu_seqlens=ends)
        mask, start = packed if mask is None else mask & packed, m - n if start is None else start
    return ScoreRule(
        scale=scaling,
        softcap=given.get("softcap"),
        bias=bias,
        mask=mask,
        sinks=given.get("s_aux") if given.get("s_aux") is not None else given.get("sinks"),
        query_start=start,
        key_start=key_start,
    )


def _is_causal(module: nn.Module, given: dict[str, Any]) -> bool:
    """As transformers decides where no mask was made: the call's word, else the module's, else yes."""
    said = given.get("is_causal")
    return bool(getattr(module, "is_causal", True) if said is None else said)


class HuggingFaceModel:
    """A transformers model, taught to send its quantities through the tap while it is watched."""

    def __init__(self, model: Any) -> None:
        self._model = model
        config = model.config
        self.name: str = (
            getattr(model, "clearhead_name", "") or config.name_or_path or type(model).__name__
        )
        self.origin: str = getattr(model, "clearhead_origin", "") or str(model.dtype)[6:]
        self.tokenizer: Any = getattr(model, "clearhead_tokenizer", None)
        lengths = [getattr(config, name, None) for name in _LENGTHS]
        self.context_length: int | None = next((n for n in lengths if isinstance(n, int)), None)
        self._refuse()
        self._modules = _attention_modules(model)
        self._projections: dict[Site, OutputProjection] = {}

    def sites(self) -> tuple[Site, ...]:
        """Every module that computes attention, in the model's own order."""
        return tuple(self._modules)

    def output_projection(self, site: Site) -> OutputProjection | None:
        """The linear layer that was handed this site's context; None where none was."""
        return self._projections.get(site)

    def logits(self, ids: Tensor, *, attention_mask: Tensor | None, last: Tensor) -> Tensor | None:
        """Run the model without a cache; only the positions asked for reach the vocabulary."""
        model = self._model
        kept, place = last.unique(return_inverse=True)
        extra: dict[str, Any] = {}
        takes = model.forward.__code__.co_varnames if hasattr(model.forward, "__code__") else ()
        parameters = _parameters(model)
        if "logits_to_keep" in parameters or "logits_to_keep" in takes:
            extra["logits_to_keep"] = kept
        if "use_cache" in parameters:
            extra["use_cache"] = False
        if attention_mask is not None and "position_ids" in parameters:
            extra["position_ids"] = (attention_mask.long().cumsum(-1) - 1).clamp(min=0)
        output = model(input_ids=ids, attention_mask=attention_mask, **extra)
        logits = getattr(output, "logits", None)
        if logits is None or logits.ndim != 3:
            return None
        row = torch.arange(len(ids), device=ids.device)
        return logits[row, place if "logits_to_keep" in extra else last]

    @contextmanager
    def running(self) -> Iterator[None]:
        """Switch the model to our attention in evaluation mode, watch its modules, and put all of it back."""
        register_attention()
        with ExitStack() as undo:
            undo.enter_context(_evaluating(self._model))
            undo.enter_context(_switched(self._model))
            for site, module in self._modules.items():
                _SITES[id(module)] = site
                undo.callback(_SITES.pop, id(module), None)
                hook = module.register_forward_pre_hook(_sees_input(site), with_kwargs=True)
                undo.callback(hook.remove)
            for module in self._model.modules():
                if isinstance(module, nn.Linear | Conv1D):
                    undo.callback(module.register_forward_pre_hook(self._notice).remove)
                    undo.callback(module.register_forward_hook(_sees_output).remove)
            undo.callback(_RETURNED.clear)
            yield

    def _notice(self, module: Any, args: tuple[Any, ...]) -> None:
        """A linear layer is about to run: is it handed the context that was just returned?"""
        joined = args[0]
        if joined.data_ptr() != _RETURNED.get("pointer") or joined.numel() != _RETURNED["elements"]:
            return
        weight = module.weight.T if isinstance(module, Conv1D) else module.weight
        self._projections[_RETURNED["site"]] = OutputProjection(weight.detach(), module.bias)
        _RETURNED.update(pointer=None, projection=id(module))

    def _refuse(self) -> None:
        name, config = type(self._model).__name__, self._model.config
        if getattr(config, "is_encoder_decoder", False):
            raise TraceError(
                f"{name} cannot be traced yet: it is an encoder-decoder, whose two kinds of attention "
                "layers are not told apart yet; decoder-only and encoder-only models can be"
            )
        if not self._model._can_set_attn_implementation():
            raise TraceError(
                f"{name} cannot be traced: its layers compute attention themselves, not through "
                "transformers' attention interface"
            )


def _parameters(model: Any) -> set[str]:
    import inspect

    return set(inspect.signature(model.forward).parameters)


def _attention_modules(model: nn.Module) -> dict[Site, nn.Module]:
    """The innermost modules called attention: those that hold no other."""
    named = {
        name: module
        for name, module in model.named_modules()
        if re.search(r"Attention(?!.*Output)", type(module).__name__)
    }
    inner = {
        name: module
        for name, module in named.items()
        if not any(other.startswith(f"{name}.") for other in named)
    }
    if not inner:
        raise TraceError(f"{type(model).__name__} cannot be traced: it has no attention layer")
    return {Site(layer, "self", name): module for layer, (name, module) in enumerate(inner.items())}


@contextmanager
def _switched(model: Any) -> Iterator[None]:
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
            f"{type(model).__name__} cannot be traced: its layers know only attention implementations of "
            "their own"
        ) from error
    finally:
        for key, config in configs.items():
            config._attn_implementation_internal = before[key]


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    training = [part for part in model.modules() if part.training]
    model.eval()
    try:
        yield
    finally:
        for part in training:
            part.training = True


def _sees_input(site: Site) -> Any:
    def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        del module
        if args:
            return (visit(site, "attention_input", args[0]), *args[1:]), kwargs
        return args, {
            **kwargs,
            "hidden_states": visit(site, "attention_input", kwargs["hidden_states"]),
        }

    return hook


def _sees_output(module: nn.Module, args: tuple[Any, ...], output: Tensor) -> Tensor:
    del args
    if _RETURNED.get("projection") != id(module):
        return output
    _RETURNED["projection"] = None
    return visit(_RETURNED["site"], "output", output)
