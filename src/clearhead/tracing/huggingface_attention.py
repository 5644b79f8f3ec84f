"""What transformers calls in place of its own attention, and what is observed around that call.

Q, K and V arrive with the call, which gives the tap everything up to C. X and W_O are no part of
it, so they are *observed*: X is what the attention module is handed, and W_O is the linear layer
that is next handed exactly the C we returned. Nothing is guessed from names.
"""

from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from clearhead.errors import UnsupportedError
from clearhead.masks import Mask, causal_mask, document_mask
from clearhead.pipeline.rule import ScoreRule
from clearhead.pipeline.tap import Site, attend, visit
from clearhead.tracing.huggingface_masks import LazyMask
from clearhead.tracing.models import OutputProjection

__all__ = ["Watch", "attention_function", "watch_of"]


class Watch:
    """What is observed of one model while it runs.

    Args:
        sites: the attention modules, and which site each one is.

    Attributes:
        projections: W_O of each site, once a run has shown it.
    """

    def __init__(self, sites: Mapping[nn.Module, Site]) -> None:
        self.projections: dict[Site, OutputProjection] = {}
        self._sites = WeakKeyDictionary(sites)
        self._runs = 0
        self._undo = ExitStack()
        self._returned: tuple[Site, Tensor, int | None] | None = None
        self._projecting: tuple[Site, nn.Module] | None = None

    @contextmanager
    def watching(self, model: nn.Module) -> Generator[bool]:
        """Observe a model's modules; inside another watch of the same model, go on with that one.

        Yields:
            Whether this is the outermost watch.
        """
        if self._runs == 0:
            self._begin(model)
        self._runs += 1
        try:
            yield self._runs == 1
        finally:
            self._runs -= 1
            if self._runs == 0:
                self._undo.close()
                self._returned = self._projecting = None

    def site(self, module: nn.Module) -> Site:
        """Which site an attention module is."""
        return self._sites[module]

    def returned(self, site: Site, context: Tensor) -> None:
        """Remember the context that was just handed to the model.

        It is held until W_O reads it, or the next layer comes: memory that was let go may be taken
        by another tensor of the same size, which would then pass for it.
        """
        self._returned = (site, context, _writes(context))

    def _begin(self, model: nn.Module) -> None:
        for module, site in self._sites.items():
            _WATCHED[module] = self
            self._undo.callback(_WATCHED.pop, module, None)
            hook = module.register_forward_pre_hook(_sees_input(site), with_kwargs=True)
            self._undo.callback(hook.remove)
        for module in model.modules():
            if isinstance(module, nn.Linear | Conv1D):
                self._undo.callback(module.register_forward_pre_hook(self._reads).remove)
                self._undo.callback(module.register_forward_hook(self._gives).remove)

    def _reads(self, module: Any, args: tuple[Any, ...]) -> None:
        """A linear layer is about to run: is it handed the context that was just returned?"""
        if self._returned is None or not args:
            return
        site, context, writes = self._returned
        if not _is_joined(args[0], context) or _writes(context) != writes:
            return
        weight: Tensor = module.weight.T if isinstance(module, Conv1D) else module.weight
        bias: Tensor | None = module.bias
        self.projections[site] = OutputProjection(
            weight.detach(), None if bias is None else bias.detach()
        )
        self._returned, self._projecting = None, (site, module)

    def _gives(self, module: nn.Module, args: tuple[Any, ...], output: Tensor) -> Tensor:
        del args
        if self._projecting is None or self._projecting[1] is not module:
            return output
        site, self._projecting = self._projecting[0], None
        return visit(site, "output", output)


#: The watch of each attention module of a model that is being watched.
_WATCHED: WeakKeyDictionary[nn.Module, Watch] = WeakKeyDictionary()


def watch_of(sites: Mapping[nn.Module, Site]) -> Watch:
    """The watch that is on these modules already, or a new one."""
    known = next((_WATCHED[module] for module in sites if module in _WATCHED), None)
    return Watch(sites) if known is None else known


def _sees_input(site: Site) -> Any:
    def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        del module
        if args:
            return (visit(site, "attention_input", args[0]), *args[1:]), kwargs
        if "hidden_states" not in kwargs:
            return None
        read = visit(site, "attention_input", kwargs["hidden_states"])
        return args, {**kwargs, "hidden_states": read}

    return hook


def _is_joined(tensor: Tensor, context: Tensor) -> bool:
    """Whether a tensor is this context, its heads side by side and nothing else changed."""
    return (
        tensor.data_ptr() == context.data_ptr()
        and tensor.numel() == context.numel()
        and tensor.shape[-1] == context.shape[-2] * context.shape[-1]
        and tensor.is_contiguous()
    )


def _writes(tensor: Tensor) -> int | None:
    """How often a tensor's memory was written to; None where PyTorch does not count."""
    # the counter has no public name
    return None if tensor.is_inference() else tensor._version  # noqa: SLF001


def attention_function(
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
    """The attention function registered with transformers.

    Args:
        module: the attention module that calls.
        query: Q, (batch, heads, n, d_k).
        key: K, (batch, kv_heads, m, d_k), cached keys included.
        value: V, (batch, kv_heads, m, d_v).
        attention_mask: what our mask function made, a tensor of the user's or the model's, or None.
        dropout: refused unless 0.
        scaling: scale of the scores; None is 1/√d_k.
        given: what else the family asks for: ``softcap``, ``s_aux`` or ``sinks``,
            ``position_bias``, …

    Returns:
        C as (batch, n, heads, d_v), and no weights.

    Raises:
        UnsupportedError: the family asks for what clearhead does not do.
    """
    _refuse(module, dropout, given)
    rule = _rule(module, query, key, attention_mask, scaling=scaling, given=given)
    watch = _WATCHED.get(module)
    site = _unwatched(module) if watch is None else watch.site(module)
    context = attend(query, key, value, rule=rule, site=site).context.transpose(1, 2).contiguous()
    if watch is not None:
        watch.returned(site, context)
    return context, None


def _unwatched(module: nn.Module) -> Site:
    layer = getattr(module, "layer_idx", None)
    return Site(layer if isinstance(layer, int) else 0, "self", type(module).__name__)


def _refuse(module: nn.Module, dropout: float, given: Mapping[str, Any]) -> None:
    refused = [name for name in ("indices", "block_indices") if given.get(name) is not None]
    sinks = _sinks(given)
    if sinks is not None and sinks.ndim != 1:
        refused.append(f"sinks of shape {tuple(sinks.shape)} where one a head is known")
    if dropout:
        refused.append(f"dropout={dropout} (call model.eval(), or set attention dropout to 0)")
    if refused:
        raise UnsupportedError(
            f"{type(module).__name__} asks attention for what clearhead does not do: "
            f"{', '.join(refused)}"
        )


def _sinks(given: Mapping[str, Any]) -> Tensor | None:
    return given.get("sinks") if given.get("s_aux") is None else given["s_aux"]


def _rule(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    attention_mask: LazyMask | Tensor | None,
    *,
    scaling: float | None,
    given: Mapping[str, Any],
) -> ScoreRule:
    n, m = query.shape[2], key.shape[2]
    mask: Mask | None = None
    start: int | None = None
    key_start = 0
    bias: Tensor | None = given.get("position_bias")
    if isinstance(attention_mask, LazyMask):
        if m != attention_mask.keys:
            raise UnsupportedError(
                f"{type(module).__name__} attends to {m} keys where its mask was made for "
                f"{attention_mask.keys}"
            )
        mask, start = attention_mask.mask, attention_mask.query_start
        key_start = attention_mask.key_start
    elif isinstance(attention_mask, Tensor):
        dense = attention_mask[..., :m]
        if dense.dtype == torch.bool:
            mask = Mask.from_tensor(dense)
        else:
            # transformers writes the lowest number where a row may not look: as a number, a row of
            # nothing else would look everywhere
            dense = dense.masked_fill(dense <= torch.finfo(dense.dtype).min, -torch.inf)
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
        sinks=_sinks(given),
        query_start=start,
        key_start=key_start,
    )


def _is_causal(module: nn.Module, given: Mapping[str, Any]) -> bool:
    """As transformers decides where no mask was made: the call's word, the module's, or yes."""
    said = given.get("is_causal")
    return bool(getattr(module, "is_causal", True) if said is None else said)
