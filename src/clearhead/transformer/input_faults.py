"""What can be wrong with the tokens a model is given, said all at once."""

from collections.abc import Iterator, Mapping
from itertools import groupby

import torch
from torch import Tensor

from clearhead.errors import InputError, gathered
from clearhead.transformer.cache import KVCache
from clearhead.transformer.cache_cost import whole
from clearhead.transformer.cache_faults import misfits
from clearhead.transformer.calls import Encoded
from clearhead.transformer.config import TransformerConfig

__all__ = ["check_inputs"]

#: What an embedding reads, and what picks positions.
_INDICES = (torch.int64, torch.int32)


def check_inputs(
    config: TransformerConfig,
    ids: Tensor,
    *,
    attention_mask: Tensor | None = None,
    documents: Tensor | None = None,
    token_types: Tensor | None = None,
    source: Encoded | None = None,
    cache: KVCache | None = None,
    keep: int | Tensor = 0,
) -> None:
    """Refuse what a stack cannot read.

    Args:
        config: of the stack.
        ids: its tokens.
        attention_mask: which are real.
        documents: which text each belongs to.
        token_types: which type each has.
        source: what an encoder made of another text.
        cache: keys and values of what was read before.
        keep: which logits are asked for.

    Raises:
        InputError: something does not fit; all faults at once. Where something is of another class
            altogether, that alone is said.

    Cost: some tens of microseconds; ids, types, documents and positions to keep are looked at, for
    which an accelerator waits.
    """
    beside = {
        "attention_mask": attention_mask,
        "documents": documents,
        "token_types": token_types,
    }
    faults = list(_classes(ids, beside, source=source, cache=cache))
    if not faults:
        faults += _ids(config, ids)
        for name, tensor in beside.items():
            faults += _beside(name, tensor, ids)
        faults += _kinds(config, documents=documents, token_types=token_types, source=source)
        if documents is not None and documents.shape == ids.shape:
            faults += _packed(documents)
        if documents is not None and (cache is not None or attention_mask is not None):
            faults.append("documents: packed texts are read whole: without cache or attention_mask")
        faults += _source(config, source, ids)
        if cache is not None:
            faults += misfits(cache, config, source)
    faults += _keep(keep, ids)
    if faults:
        raise InputError(gathered("the model cannot read this", faults))


def _classes(
    ids: object, beside: Mapping[str, object], *, source: object, cache: object
) -> Iterator[str]:
    if not isinstance(ids, Tensor):
        yield f"ids must be a tensor (batch, n), got {type(ids).__name__}"
    for name, tensor in beside.items():
        if tensor is not None and not isinstance(tensor, Tensor):
            yield f"{name} must be a tensor of the shape of ids, got {type(tensor).__name__}"
    if source is not None and not isinstance(source, Encoded):
        yield f"source must be what model.encode(ids) gives, got {type(source).__name__}"
    if cache is not None and not isinstance(cache, KVCache):
        yield f"cache must be a clearhead KVCache, got {type(cache).__name__}"


def _ids(config: TransformerConfig, ids: Tensor) -> Iterator[str]:
    if ids.dim() != 2:
        yield f"ids must be (batch, n), got shape {tuple(ids.shape)}"
    elif config.pooler and not ids.shape[1]:
        yield "ids must have a first token, whose vector this model pools; they are empty"
    yield from _numbers("ids", ids, range(config.vocabulary_size))


def _beside(name: str, tensor: Tensor | None, ids: Tensor) -> Iterator[str]:
    if tensor is None:
        return
    if tensor.shape != ids.shape:
        yield f"{name} must have the shape of ids {tuple(ids.shape)}, got {tuple(tensor.shape)}"
    if name == "attention_mask" and (tensor.is_floating_point() or tensor.is_complex()):
        yield f"{name} must be bool or integers, 1 where a token is real, got {tensor.dtype}"
    elif name == "documents" and not _integral(tensor):
        yield f"{name} must be whole numbers, got {tensor.dtype}"


def _kinds(
    config: TransformerConfig,
    *,
    documents: Tensor | None,
    token_types: Tensor | None,
    source: Encoded | None,
) -> Iterator[str]:
    if token_types is not None and not config.token_types:
        yield "token_types: this model does not tell types apart"
    elif token_types is not None:
        yield from _numbers("token_types", token_types, range(config.token_types))
    if documents is not None and config.encoder is not None:
        yield "documents: texts cannot be packed in a model with an encoder"
    if source is None and config.encoder is not None:
        yield "source: this model looks at an encoded text; give model.encode(ids)"
    if source is not None and config.encoder is None:
        yield "source: this model has no encoder, and looks at no other text"


def _source(config: TransformerConfig, source: Encoded | None, ids: Tensor) -> Iterator[str]:
    if source is None:
        return
    hidden, real = source.hidden, source.real
    if len(hidden) != len(ids):
        yield f"source must have as many rows as ids, {len(ids)}, got {len(hidden)}"
    width = None if config.encoder is None else config.encoder.d_model
    if width is not None and (hidden.dim() != 3 or hidden.shape[-1] != width):
        yield f"source.hidden must be (batch, m, {width}), got shape {tuple(hidden.shape)}"
    elif real is not None and real.shape != hidden.shape[:2]:
        shapes = f"{tuple(hidden.shape[:2])}, got {tuple(real.shape)}"
        yield f"source.real must have the shape of source.hidden's tokens {shapes}"


def _packed(documents: Tensor) -> Iterator[str]:
    """Say so if it is unclear where a token stands in its text, or which text that is."""
    # Looking at values would split a compiled graph.
    if torch.compiler.is_compiling() or documents.dim() != 2:
        return
    rows = documents.numpy(force=True).tolist()
    lowest = min((number for row in rows for number in row), default=0)
    if lowest < 0:
        # to document_mask that is padding, which sees nothing, not even itself
        yield f"documents must be 0 or more, got {lowest}: padding may be a text of its own"
    for place, row in enumerate(rows):
        runs = [number for number, _ in groupby(row)]
        if len(runs) > len(set(runs)):
            yield f"documents must have each text's tokens side by side, and row {place} has not"
            return


def _keep(keep: object, ids: object) -> Iterator[str]:
    if not isinstance(keep, Tensor):
        last = whole(keep)
        if last is None or last < 0:
            yield f"logits_to_keep must be 0 (all) or how many last positions, got {keep!r}"
    elif keep.dim() != 1 or not _integral(keep):
        got = f"{keep.dtype} of shape {tuple(keep.shape)}"
        yield f"logits_to_keep must list positions, got {got}"
    elif isinstance(ids, Tensor) and ids.dim() == 2:
        places = range(-ids.shape[1], ids.shape[1])
        yield from _numbers("logits_to_keep", keep, places)


def _numbers(name: str, values: Tensor, allowed: range) -> Iterator[str]:
    if not _integral(values):
        yield f"{name} must be whole numbers, got {values.dtype}"
    elif values.dtype not in _INDICES:
        yield f"{name} must be int64 or int32, got {values.dtype}: give {name}.long()"
    else:
        yield from _outside(name, values, allowed)


def _integral(tensor: Tensor) -> bool:
    return not (tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool)


def _outside(name: str, values: Tensor, allowed: range) -> Iterator[str]:
    # Looking at values would split a compiled graph.
    if not values.numel() or torch.compiler.is_compiling():
        return
    low, high = (bound.item() for bound in torch.aminmax(values))
    if not (allowed.start <= low and high < allowed.stop):
        yield f"{name} must lie in {allowed.start} … {allowed.stop - 1}, got {low} … {high}"
