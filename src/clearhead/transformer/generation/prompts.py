"""What may be given to continue: text, chat messages, ids, or several; all of it as rows of ids."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard, cast

import torch
from torch import Tensor

from clearhead.errors import InputError, TokenError, gathered
from clearhead.masks.places import numbers
from clearhead.tokens.tokenizer import TextTokenizer

__all__ = ["Prompt", "Prompts", "read_prompts"]

_Messages = Sequence[Mapping[str, Any]]
Prompt = (
    str
    | _Messages
    | Sequence[str]
    | Sequence[_Messages]
    | Tensor
    | Sequence[int]
    | Sequence[Sequence[int]]
)


@dataclass(frozen=True)
class Prompts:
    """Prompts as ids.

    Attributes:
        rows: the ids of each, without padding.
        several: whether several were given, so that several answers are due.
    """

    rows: tuple[tuple[int, ...], ...]
    several: bool


def read_prompts(
    given: Prompt,
    words: TextTokenizer | None,
    *,
    attention_mask: Tensor | None = None,
    vocabulary: int,
) -> Prompts:
    """Make ids of what a person gave.

    Args:
        given: a text; chat messages; ids, as a list, (n,) or (batch, n); or a list of texts, of
            chats or of ids, of any lengths.
        words: the tokenizer, or None where there is none.
        attention_mask: 1 where one of a padded batch's ids is real.
        vocabulary: how many tokens the model knows.

    Returns:
        The rows.

    Raises:
        TokenError: there is nothing to read in one of them.
        InputError: it is none of these, text without a tokenizer, ids that the model does not
            know, or a mask that does not fit.
    """
    if _is_text(given):
        said: list[str | _Messages] = [given]
    elif isinstance(given, Sequence) and given and all(_is_text(one) for one in given):
        said = list(cast("Sequence[str | _Messages]", given))
    else:
        return _numbers(given, attention_mask, vocabulary)
    if attention_mask is not None:
        raise InputError("attention_mask belongs to token ids: texts need no padding")
    rows = [_encoded(one, words) for one in said]
    return _checked(rows, several=not _is_text(given), vocabulary=vocabulary)


def _is_text(given: object) -> TypeGuard[str | _Messages]:
    """Whether it is one text, or the messages of one chat."""
    entries = _entries(given)
    return isinstance(given, str) or (
        len(entries) > 0 and all(isinstance(entry, Mapping) for entry in entries)
    )


def _encoded(said: str | _Messages, words: TextTokenizer | None) -> list[int]:
    if words is None:
        raise InputError(
            "this model brings no tokenizer: give tokenizer=, or token ids in place of text"
        )
    if not isinstance(said, str):
        return words.chat(list(said))
    return words.encode(said) if said else []


def _numbers(given: object, attention_mask: Tensor | None, vocabulary: int) -> Prompts:
    rows, several = _rows(given)
    if attention_mask is not None:
        rows = _real(rows, attention_mask)
    return _checked(rows, several=several or attention_mask is not None, vocabulary=vocabulary)


def _rows(given: object) -> tuple[list[list[int]], bool]:
    """Rows of numbers, and whether there are several."""
    listed = list(_entries(given))
    if listed and all(isinstance(one, Sequence | Tensor) for one in listed):
        rows = [_row(one) for one in listed]
        return rows, len(rows) > 1
    ids = _tensor(given)
    if ids.dim() == 2:
        return [numbers(row) for row in ids], len(ids) > 1
    return [_row(ids)], False


def _entries(given: object) -> Sequence[object]:
    return cast("Sequence[object]", given) if isinstance(given, Sequence) else ()


def _row(given: object) -> list[int]:
    ids = _tensor(given)
    if ids.dim() != 1:
        raise InputError(
            f"prompt: token ids must be (n,) or (batch, n), got shape {tuple(ids.shape)}"
        )
    return numbers(ids)


def _tensor(given: object) -> Tensor:
    """Whole numbers as a tensor; none at all is one too."""
    try:
        ids = torch.as_tensor(cast("Any", given))
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise InputError(_told(given)) from error
    if ids.numel() and (ids.is_floating_point() or ids.is_complex() or ids.dtype == torch.bool):
        raise InputError(f"prompt: token ids must be whole numbers, got {ids.dtype}")
    return ids.long()


def _told(given: object) -> str:
    """What is said of a prompt that is none, and what to give instead where that is plain."""
    kinds = "text, chat messages, token ids, or a list of these"
    told = f"prompt must be {kinds}, got {type(given).__name__}"
    if not isinstance(given, Mapping):
        return told
    keys = cast("Mapping[object, object]", given)
    if "input_ids" in keys:
        masked = ", and its ['attention_mask'] as attention_mask=" * ("attention_mask" in keys)
        return f"{told}: give its ['input_ids']{masked}"
    return f"{told}: give one message as [message]" if "role" in keys else told


def _real(rows: list[list[int]], attention_mask: Tensor) -> list[list[int]]:
    """The real ids of each row."""
    expected = "attention_mask must be bool or integers, 1 where a token is real"
    try:
        mask = torch.as_tensor(attention_mask)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        got = f"{type(attention_mask).__name__}, of which no tensor can be made"
        raise InputError(f"{expected}, got {got}") from error
    if mask.is_floating_point() or mask.is_complex():
        # in a mask that is added to scores, 0 is a real token
        raise InputError(f"{expected}, got {mask.dtype}")
    lines = {1: mask[None], 2: mask}.get(mask.dim(), ())
    kept = [numbers(row.long()) for row in lines]
    if list(map(len, kept)) != list(map(len, rows)):
        raise InputError(
            f"attention_mask must have the shape of the ids, got {tuple(mask.shape)} "
            f"for rows of {', '.join(str(len(row)) for row in rows[:8])} ids"
        )
    return [
        [token for token, real in zip(row, keep, strict=True) if real]
        for row, keep in zip(rows, kept, strict=True)
    ]


def _checked(rows: Sequence[Sequence[int]], *, several: bool, vocabulary: int) -> Prompts:
    faults = list(_faults(rows, vocabulary))
    if not rows:
        raise TokenError("prompt: there is no prompt in the list")
    if any(not row for row in rows):
        raise TokenError(gathered("there is nothing to continue", faults))
    if faults:
        raise InputError(gathered("the model cannot read this", faults))
    return Prompts(tuple(map(tuple, rows)), several)


def _faults(rows: Sequence[Sequence[int]], vocabulary: int) -> Iterator[str]:
    for number, row in enumerate(rows):
        name = "the prompt" if len(rows) == 1 else f"prompt {number}"
        if not row:
            yield f"{name} is empty"
        elif min(row) < 0 or max(row) >= vocabulary:
            yield (
                f"{name} must hold token ids from 0 to {vocabulary - 1}, "
                f"got {min(row)} … {max(row)}"
            )
