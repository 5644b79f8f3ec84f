"""What may be given to look at: text, chat messages, ids, padded ids; all of it as ids."""

from collections.abc import Mapping, Sequence
from types import UnionType
from typing import Any, TypeGuard, cast

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from clearhead.errors import InputError, TokenError
from clearhead.masks.places import numbers
from clearhead.tokens.tokenizer import TextTokenizer

__all__ = ["Inputs", "are_messages", "are_texts", "read_ids", "real_tokens", "row_lengths"]

#: Rows whose length an error names at most.
SHOWN = 8

_Numbers = Tensor | Sequence[int] | Sequence[Sequence[int]]
_Messages = Sequence[Mapping[str, Any]]
Inputs = str | _Numbers | _Messages | Sequence[str]


def are_texts(inputs: Inputs) -> TypeGuard[Sequence[str]]:
    """Whether several texts were given."""
    return not isinstance(inputs, str) and _all_are(str, inputs)


def read_ids(inputs: Inputs, words: TextTokenizer | None) -> Int[Tensor, "batch n"]:
    """Make ids of a text, of chat messages or of numbers.

    Args:
        inputs: what a person gave; not a list of texts.
        words: the tokenizer, or None where there is none.

    Returns:
        The ids; one row for a text or a chat.

    Raises:
        TokenError: there is nothing to read.
        InputError: it is none of these, or text without a tokenizer.
    """
    given = _encoded(inputs, words) if isinstance(inputs, str) or are_messages(inputs) else inputs
    try:
        ids = torch.as_tensor(given)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(_told(inputs)) from error
    if ids.numel() == 0:
        raise TokenError("there are no tokens to look at")
    if ids.ndim not in (1, 2) or ids.dtype.is_floating_point or ids.dtype == torch.bool:
        raise InputError(
            "token ids must be integers, (n,) or (batch, n), "
            f"got {ids.dtype} of shape {tuple(ids.shape)}"
        )
    return ids.reshape(-1, ids.shape[-1]).long()


def real_tokens(
    ids: Int[Tensor, "batch n"], attention_mask: Tensor | None
) -> Bool[Tensor, "batch n"] | None:
    """Which tokens are real.

    Args:
        ids: the ids.
        attention_mask: 1 where a token is real, of the shape of the ids; None is all.

    Returns:
        True where a token is real, on the CPU; None where no mask was given.

    Raises:
        InputError: a mask of another shape, or of numbers that may mean the opposite.
        TokenError: a row holds no real token.
    """
    if attention_mask is None:
        return None
    mask = torch.as_tensor(attention_mask)
    if mask.is_floating_point():
        # in a mask that is added to scores, 0 is a real token
        raise InputError(
            f"attention_mask must be bool or integers, 1 where a token is real, got {mask.dtype}"
        )
    real = mask.bool().cpu()
    # one sequence may come without a batch axis, and its mask then does too
    real = real[None] if real.ndim == 1 else real
    if real.shape != ids.shape:
        raise InputError(
            f"attention_mask must have the shape of the ids, {tuple(ids.shape)}, "
            f"got {tuple(real.shape)}"
        )
    empty = numbers((~real.any(-1)).nonzero().flatten())
    if empty:
        raise TokenError(f"rows {empty} of the batch hold no real token")
    return real


def _encoded(said: str | _Messages, words: TextTokenizer | None) -> list[int]:
    if words is None:
        raise InputError(
            "this model brings no tokenizer: give tokenizer=, or token ids in place of text"
        )
    if not isinstance(said, str):
        return words.chat(list(said))
    if not said.strip():
        raise TokenError("the text is empty: there is nothing to look at")
    return words.encode(said)


def _told(inputs: object) -> str:
    """What is said of inputs that are none, and what to give instead where that is plain."""
    lengths = row_lengths(inputs)
    if len(set(lengths)) > 1:
        return (
            f"rows of ids must have one length, got {', '.join(map(str, lengths[:SHOWN]))}"
            f"{', …' if len(lengths) > SHOWN else ''}: pad them and give attention_mask=, or trace "
            "each row alone"
        )
    expected = "inputs must be text, chat messages, token ids or a list of texts"
    got = f"{expected}, got {type(inputs).__name__}"
    if not isinstance(inputs, Mapping):
        return got
    keys = cast("Mapping[object, object]", inputs)
    if "input_ids" in keys:
        padded = (
            ", and its ['attention_mask'] as attention_mask=" if "attention_mask" in keys else ""
        )
        return f"{got}: give its ['input_ids']{padded}"
    return f"{got}: give one message as [message]" if "role" in keys else got


def row_lengths(inputs: object) -> list[int]:
    """The length of each row, where there are rows.

    Args:
        inputs: what a person gave.
    """
    if not _all_are(Sequence | Tensor | np.ndarray, inputs):
        return []
    rows = cast("Sequence[Sequence[object]]", inputs)
    axes = (0 if isinstance(row, str) else getattr(row, "ndim", 1) for row in rows)
    return [len(row) for row in rows] if all(axes) else []


def are_messages(inputs: Inputs) -> TypeGuard[_Messages]:
    """Whether chat messages were given."""
    return _all_are(Mapping, inputs)


def _all_are(kind: type | UnionType, inputs: object) -> bool:
    if not isinstance(inputs, Sequence):
        return False
    entries = cast("Sequence[object]", inputs)
    return len(entries) > 0 and all(isinstance(one, kind) for one in entries)
