"""What may be given for a decoder to read beside its source: text or ids, one for each source."""

from collections.abc import Sequence
from itertools import chain
from typing import cast

import torch
from jaxtyping import Int
from torch import Tensor

from clearhead.errors import InputError
from clearhead.masks.places import numbers
from clearhead.tokens.tokenizer import TextTokenizer
from clearhead.tracing.inputs import (
    Inputs,
    are_messages,
    are_texts,
    read_ids,
    row_lengths,
)

__all__ = ["read_targets", "stacked"]


def read_targets(
    target: Inputs | None, words: TextTokenizer | None, *, start: Sequence[int], count: int
) -> list[Int[Tensor, "n"]]:
    """Make the decoder's ids of what was given.

    A text stands after the start tokens, without what its tokenizer puts at its end: the decoder is
    about to go on. Ids are taken as they are, start tokens included.

    Args:
        target: a text, ids, or a list of either with one for each source; None is the start tokens
            alone.
        words: the tokenizer, or None where there is none.
        start: the tokens the decoder begins with; empty where they are not known.
        count: how many sources there are.

    Returns:
        The ids for each source.

    Raises:
        InputError: it is none of these, too many or too few, or the start tokens are needed and not
            known.
        TokenError: there is nothing to read.
    """
    if target is None:
        return [torch.tensor(_known(start))] * count
    if are_messages(target):
        raise InputError("target must be text or token ids, got chat messages")
    several = are_texts(target) or bool(row_lengths(target))
    given = cast("Sequence[Inputs]", target) if several else [target]
    rows = list(chain.from_iterable(_read(one, words, start) for one in given))
    if len(rows) not in (1, count):
        raise InputError(
            f"target must be one sequence, or one for each source ({count}), got {len(rows)}"
        )
    return rows if len(rows) == count else rows * count


def stacked(rows: Sequence[Int[Tensor, "n"]]) -> Int[Tensor, "batch n"]:
    """Targets of a batch as one tensor.

    Args:
        rows: the ids of each.

    Raises:
        InputError: they are not of one length.
    """
    lengths = [len(row) for row in rows]
    if len(set(lengths)) > 1:
        raise InputError(
            f"the targets of a batch must have one length, got {', '.join(map(str, lengths))}: "
            "trace each source with its target alone"
        )
    return torch.stack(list(rows))


def _read(one: Inputs, words: TextTokenizer | None, start: Sequence[int]) -> list[Tensor]:
    try:
        ids = read_ids(one, words)
    except InputError as error:
        raise type(error)(f"target: {error}") from error
    if not isinstance(one, str):
        return list(ids)
    assert words is not None
    begin, text = _known(start), _open(one, numbers(ids[0]), words)
    # what always comes second may be what the tokenizer begins a text with
    again = begin[1:] if text[: len(begin) - 1] == begin[1:] else []
    return [torch.tensor(begin + text[len(again) :])]


def _open(text: str, ids: list[int], words: TextTokenizer) -> list[int]:
    """The ids of a text without what its tokenizer puts after it."""
    bare = words.encode(text, special=False)
    places = range(len(ids) - len(bare) + 1)
    ends = (at + len(bare) for at in places if ids[at : at + len(bare)] == bare)
    return ids[: next(ends, len(ids))]


def _known(start: Sequence[int]) -> list[int]:
    if not start:
        raise InputError(
            "target: what this model's decoder begins with is not known; give target= as token "
            "ids, the token it begins with first"
        )
    return list(start)
