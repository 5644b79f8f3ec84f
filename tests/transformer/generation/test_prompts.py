"""What may be given to continue, as rows of ids; what may not, in words."""

import math

import numpy as np
import pytest
import torch

from clearhead.errors import InputError, TokenError
from clearhead.tokens.tokenizer import TextTokenizer
from clearhead.transformer.generation.prompts import Prompts, read_prompts
from tests.tokens import tiny

TEMPLATE = "{% for message in messages %}{{ message.content }}!{% endfor %}"
WORDS = TextTokenizer(TextTokenizer.wrap(tiny.byte_level())._backend, template=TEMPLATE)


def read(given, words=WORDS, **options) -> Prompts:
    return read_prompts(given, words, **{"vocabulary": 300, **options})


@pytest.mark.parametrize(
    ("given", "rows", "several"),
    [
        ([5, 6], [[5, 6]], False),
        ((5, 6), [[5, 6]], False),
        (torch.tensor([5, 6]), [[5, 6]], False),
        (np.array([5, 6]), [[5, 6]], False),
        (torch.tensor([[5, 6]]), [[5, 6]], False),
        (torch.tensor([[5, 6], [7, 8]], dtype=torch.int32), [[5, 6], [7, 8]], True),
        ([[5, 6]], [[5, 6]], False),
        ([[5], [6, 7, 8]], [[5], [6, 7, 8]], True),
        ([torch.tensor([5]), [6, 7]], [[5], [6, 7]], True),
    ],
)
def test_ids(given, rows, several) -> None:
    assert read(given) == Prompts(tuple(map(tuple, rows)), several)


def test_texts_and_chats() -> None:
    text = tuple(WORDS.encode("he he"))
    assert read("he he") == Prompts((text,), several=False)
    assert read(["he he"]) == Prompts((text,), several=True)
    assert read(["he he", " "]) == Prompts((text, tuple(WORDS.encode(" "))), several=True)
    chat = [{"role": "user", "content": "he"}]
    said = tuple(WORDS.encode("he!"))
    assert read(chat) == Prompts((said,), several=False)
    assert read([chat, chat * 2]) == Prompts((said, tuple(WORDS.encode("he!he!"))), several=True)


def test_padding_is_left_out_on_whichever_side_it_stands() -> None:
    ids = torch.tensor([[0, 0, 5, 6], [7, 8, 9, 0]])
    real = torch.tensor([[0, 0, 1, 1], [1, 1, 1, 0]])
    expected = Prompts(((5, 6), (7, 8, 9)), several=True)
    assert read(ids, attention_mask=real) == expected
    assert read(ids.tolist(), attention_mask=real.bool()) == expected
    assert read(ids[0], attention_mask=real[0]) == Prompts(((5, 6),), several=True)


_KINDS = "prompt must be text, chat messages, token ids, or a list of these, got "


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (None, f"{_KINDS}NoneType"),
        (object(), f"{_KINDS}object"),
        (["a", 3], f"{_KINDS}list"),
        ({"role": "user", "content": "x"}, f"{_KINDS}dict: give one message as [message]"),
        ({"input_ids": [1]}, f"{_KINDS}dict: give its ['input_ids']"),
        (
            {"input_ids": [1], "attention_mask": [1]},
            f"{_KINDS}dict: give its ['input_ids'], and its ['attention_mask'] as attention_mask=",
        ),
        ([1.5, 2.0], "prompt: token ids must be whole numbers, got torch.float32"),
        ([True, False], "prompt: token ids must be whole numbers, got torch.bool"),
        (
            torch.zeros(1, 2, 3, dtype=torch.int64),
            "prompt: token ids must be (n,) or (batch, n), got shape (1, 2, 3)",
        ),
        (
            [1, -1],
            "the model cannot read this: the prompt must hold token ids from 0 to 299, got -1 … 1",
        ),
        (
            [[1], [300], [2, 999]],
            (
                "the model cannot read this, 2 faults:\n"
                "  - prompt 1 must hold token ids from 0 to 299, got 300 … 300\n"
                "  - prompt 2 must hold token ids from 0 to 299, got 2 … 999"
            ),
        ),
    ],
)
def test_what_is_no_prompt(given, told) -> None:
    with pytest.raises(InputError) as caught:
        read(given)
    assert str(caught.value) == told


def test_a_number_past_all_ids() -> None:
    with pytest.raises(InputError):
        read([10**30])


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("", "there is nothing to continue: the prompt is empty"),
        ([], "there is nothing to continue: the prompt is empty"),
        (torch.zeros(1, 0, dtype=torch.int64), "there is nothing to continue: the prompt is empty"),
        (
            ["", "a", ""],
            "there is nothing to continue, 2 faults:\n  - prompt 0 is empty\n  - prompt 2 is empty",
        ),
        (torch.zeros(0, 4, dtype=torch.int64), "prompt: there is no prompt in the list"),
    ],
)
def test_nothing_to_continue(given, told) -> None:
    with pytest.raises(TokenError) as caught:
        read(given)
    assert str(caught.value) == told


@pytest.mark.parametrize("given", ["a", [{"role": "user", "content": "x"}], ["a"]])
def test_text_needs_a_tokenizer(given) -> None:
    with pytest.raises(InputError) as caught:
        read(given, None)
    assert str(caught.value) == (
        "this model brings no tokenizer: give tokenizer=, or token ids in place of text"
    )


@pytest.mark.parametrize(
    ("given", "mask", "told"),
    [
        ("a", [1], "attention_mask belongs to token ids: texts need no padding"),
        (
            [[1, 2]],
            torch.ones(1, 3, dtype=torch.int64),
            "attention_mask must have the shape of the ids, got (1, 3) for rows of 2 ids",
        ),
        (
            [[1, 2], [1, 2]],
            torch.ones(1, 2, dtype=torch.int64),
            "attention_mask must have the shape of the ids, got (1, 2) for rows of 2, 2 ids",
        ),
        (
            [[1, 2]],
            torch.tensor(1),
            "attention_mask must have the shape of the ids, got () for rows of 2 ids",
        ),
        (
            [[1, 2]],
            [[1], [1, 1]],
            (
                "attention_mask must be bool or integers, 1 where a token is real, got list, of "
                "which no tensor can be made"
            ),
        ),
        (
            [[1, 2]],
            torch.tensor([[0.0, -math.inf]]),
            "attention_mask must be bool or integers, 1 where a token is real, got torch.float32",
        ),
    ],
)
def test_a_mask_that_does_not_fit(given, mask, told) -> None:
    with pytest.raises(InputError) as caught:
        read(given, attention_mask=mask)
    assert str(caught.value) == told


def test_a_row_without_a_real_token_is_empty() -> None:
    with pytest.raises(TokenError, match="prompt 1 is empty"):
        read([[1, 2], [3, 4]], attention_mask=torch.tensor([[0, 1], [0, 0]]))
