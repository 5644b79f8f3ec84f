"""What can be wrong with the tokens a model is given, said all at once."""

from collections.abc import Iterator
from itertools import groupby

import torch
from torch import Tensor

from clearhead.errors import InputError, gathered
from clearhead.transformer.config import TransformerConfig

__all__ = ["check_inputs"]


def check_inputs(
    config: TransformerConfig,
    ids: Tensor,
    *,
    attention_mask: Tensor | None = None,
    documents: Tensor | None = None,
    token_types: Tensor | None = None,
    source: Tensor | None = None,
    cached: int | None = None,
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
        cached: rows of the cache, where there is one.
        keep: which logits are asked for.

    Raises:
        InputError: something does not fit; all faults at once.
    """
    faults = list(_ids(config, ids))
    beside = {
        "attention_mask": attention_mask,
        "documents": documents,
        "token_types": token_types,
    }
    for name, tensor in beside.items():
        faults += _beside(name, tensor, ids)
    faults += _kinds(config, documents=documents, token_types=token_types, source=source)
    if documents is not None and documents.shape == ids.shape:
        faults += _scattered(documents)
    if documents is not None and (cached is not None or attention_mask is not None):
        faults.append("documents: packed texts are read whole: without cache or attention_mask")
    if cached is not None and config.kind != "decoder":
        faults.append("cache: an encoder reads its text only once")
    if source is not None and len(source) != len(ids):
        faults.append(f"source must have as many rows as ids, {len(ids)}, got {len(source)}")
    faults += _keep(keep, ids)
    if faults:
        raise InputError(gathered("the model cannot read this", faults))


def _ids(config: TransformerConfig, ids: Tensor) -> Iterator[str]:
    if ids.dim() != 2:
        yield f"ids must be (batch, n), got shape {tuple(ids.shape)}"
    elif config.pooler and not ids.shape[1]:
        yield "ids must have a first token, whose vector this model pools; they are empty"
    if not _integral(ids):
        yield f"ids must be whole numbers, got {ids.dtype}"
    else:
        yield from _outside("ids", ids, range(config.vocabulary_size))


def _beside(name: str, tensor: Tensor | None, ids: Tensor) -> Iterator[str]:
    if tensor is None:
        return
    if tensor.shape != ids.shape:
        yield f"{name} must have the shape of ids {tuple(ids.shape)}, got {tuple(tensor.shape)}"
    if name == "attention_mask" and (tensor.is_floating_point() or tensor.is_complex()):
        yield f"{name} must be bool or integers, 1 where a token is real, got {tensor.dtype}"
    elif name != "attention_mask" and not _integral(tensor):
        yield f"{name} must be whole numbers, got {tensor.dtype}"


def _kinds(
    config: TransformerConfig,
    *,
    documents: Tensor | None,
    token_types: Tensor | None,
    source: Tensor | None,
) -> Iterator[str]:
    if token_types is not None and not config.token_types:
        yield "token_types: this model does not tell types apart"
    elif token_types is not None and _integral(token_types):
        yield from _outside("token_types", token_types, range(config.token_types))
    if documents is not None and config.encoder is not None:
        yield "documents: texts cannot be packed in a model with an encoder"
    if source is None and config.encoder is not None:
        yield "source: this model looks at an encoded text; give model.encode(ids)"
    if source is not None and config.encoder is None:
        yield "source: this model has no encoder, and looks at no other text"


def _scattered(documents: Tensor) -> Iterator[str]:
    """Say so if a text's tokens are not side by side: where one stands in it is then unclear."""
    # Looking at values would split a compiled graph.
    if torch.compiler.is_compiling() or documents.dim() != 2:
        return
    for row, numbers in enumerate(documents.numpy(force=True).tolist()):
        runs = [number for number, _ in groupby(numbers)]
        if len(runs) > len(set(runs)):
            yield f"documents must have each text's tokens side by side, and row {row} has not"
            return


def _keep(keep: int | Tensor, ids: Tensor) -> Iterator[str]:
    if isinstance(keep, int):
        if keep < 0:
            yield f"logits_to_keep must be 0 (all) or how many last positions, got {keep}"
        return
    if keep.dim() != 1 or not _integral(keep):
        yield f"logits_to_keep must list positions, got {keep.dtype} of shape {tuple(keep.shape)}"
    elif ids.dim() == 2:
        yield from _outside("logits_to_keep", keep, range(-ids.shape[1], ids.shape[1]))


def _integral(tensor: Tensor) -> bool:
    return not (tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool)


def _outside(name: str, values: Tensor, allowed: range) -> Iterator[str]:
    # Looking at values would split a compiled graph.
    if not values.numel() or torch.compiler.is_compiling():
        return
    low, high = (bound.item() for bound in torch.aminmax(values))
    if not (allowed.start <= low and high < allowed.stop):
        yield f"{name} must lie in {allowed.start} … {allowed.stop - 1}, got {low} … {high}"
