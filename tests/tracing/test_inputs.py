"""What may be given to look at, and what each wrong input is told."""

import numpy as np
import pytest
import torch
from transformers import BatchEncoding

from clearhead.errors import InputError, TokenError
from clearhead.tracing.inputs import are_texts, read_ids, real_tokens
from clearhead.tracing.trace import trace

NO_INPUTS = "inputs must be text, chat messages, token ids or a list of texts, got {}"
RAGGED = (
    "rows of ids must have one length, got {}: pad them and give attention_mask=, or trace each "
    "row alone"
)
NO_IDS = "token ids must be integers, (n,) or (batch, n), got {} of shape {}"
EMPTY = "the text is empty: there is nothing to look at"


@pytest.fixture
def words(text_model):
    return text_model.clearhead_tokenizer


@pytest.mark.parametrize(
    "given", [[5, 6], (5, 6), [[5, 6]], torch.tensor([5, 6], dtype=torch.int32), np.array([[5, 6]])]
)
def test_numbers_become_rows_of_ids(given):
    ids = read_ids(given, None)
    assert ids.tolist() == [[5, 6]]
    assert ids.dtype == torch.int64


def test_text_and_messages_become_one_row(words):
    assert read_ids("he é", words).tolist() == [words.encode("he é")]
    messages = ({"role": "user", "content": "he"},)
    assert read_ids(messages, words).tolist() == [words.chat(messages)]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["a", "b"], True),
        (("a",), True),
        ("ab", False),
        ([], False),
        (["a", 1], False),
        ([1, 2], False),
        (torch.tensor([1]), False),
        ({"a": 1}, False),
        (None, False),
    ],
)
def test_a_list_of_texts_is_told_from_a_text(given, expected):
    assert are_texts(given) == expected


@pytest.mark.parametrize(
    ("inputs", "error", "text"),
    [
        ("", TokenError, EMPTY),
        (" \n\t", TokenError, EMPTY),
        (["he", ""], TokenError, EMPTY),
        ([], TokenError, "there are no tokens to look at"),
        (torch.zeros(0, 5), TokenError, "there are no tokens to look at"),
        (None, InputError, NO_INPUTS.format("NoneType")),
        ({"a": [1]}, InputError, NO_INPUTS.format("dict")),
        ({"input_ids": [1]}, InputError, NO_INPUTS.format("dict: give its ['input_ids']")),
        (
            BatchEncoding({"input_ids": [[1]], "attention_mask": [[1]]}),
            InputError,
            NO_INPUTS.format(
                "BatchEncoding: give its ['input_ids'], and its ['attention_mask'] as "
                "attention_mask="
            ),
        ),
        (
            {"role": "user", "content": "he"},
            InputError,
            NO_INPUTS.format("dict: give one message as [message]"),
        ),
        ([[1, 2, 3], [1, 2]], InputError, RAGGED.format("3, 2")),
        ([torch.ones(2).long(), [3]], InputError, RAGGED.format("2, 1")),
        ((np.ones(2, int), np.ones(1, int)), InputError, RAGGED.format("2, 1")),
        ([[1]] * 9 + [[1, 2]], InputError, RAGGED.format("1, 1, 1, 1, 1, 1, 1, 1, …")),
        ([[1, "he"]], InputError, NO_INPUTS.format("list")),
        ([torch.tensor(1), torch.ones(2).long()], InputError, NO_INPUTS.format("list")),
        (["he", 1], InputError, NO_INPUTS.format("list")),
        ([{"role": "user"}, "he"], InputError, NO_INPUTS.format("list")),
        (b"he", InputError, NO_INPUTS.format("bytes")),
        (5, InputError, NO_IDS.format("torch.int64", "()")),
        ([1.5], InputError, NO_IDS.format("torch.float32", "(1,)")),
        ([True], InputError, NO_IDS.format("torch.bool", "(1,)")),
        (torch.zeros(1, 1, 1).long(), InputError, NO_IDS.format("torch.int64", "(1, 1, 1)")),
    ],
)
def test_what_cannot_be_read_is_said(inputs, error, text, text_model):
    with pytest.raises(error) as caught:
        trace(text_model, inputs)
    assert str(caught.value) == text


def test_text_needs_a_tokenizer(tiny_llama):
    for inputs in ("he", ["he", "he"], [{"role": "user", "content": "he"}]):
        with pytest.raises(InputError) as caught:
            trace(tiny_llama, inputs)
        assert str(caught.value) == (
            "this model brings no tokenizer: give tokenizer=, or token ids in place of text"
        )
    with pytest.raises(TokenError, match="tokenizer: expected a TextTokenizer"):
        trace(tiny_llama, "he", tokenizer=5)


# ------------------------------------------------------------------------------------------- masks


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.uint8])
def test_a_mask_says_which_tokens_are_real(dtype):
    ids = torch.tensor([[5, 6, 7]])
    for mask in (torch.tensor([[0, 1, 1]]), torch.tensor([0, 1, 1])):
        assert real_tokens(ids, mask.to(dtype)).tolist() == [[False, True, True]]
    assert real_tokens(ids, None) is None


@pytest.mark.parametrize(
    ("mask", "error", "text"),
    [
        (
            torch.ones(2, 4).bool(),
            InputError,
            "attention_mask must have the shape of the ids, (2, 3), got (2, 4)",
        ),
        (
            torch.ones(3).bool(),
            InputError,
            "attention_mask must have the shape of the ids, (2, 3), got (1, 3)",
        ),
        (
            torch.tensor([[0, 0, 0], [0, 1, 0]]),
            TokenError,
            "rows [0] of the batch hold no real token",
        ),
        (
            torch.zeros(2, 3),
            InputError,
            "attention_mask must be bool or integers, 1 where a token is real, got torch.float32",
        ),
    ],
)
def test_a_mask_that_does_not_fit_is_said(mask, error, text):
    with pytest.raises(error) as caught:
        real_tokens(torch.ones(2, 3).long(), mask)
    assert str(caught.value) == text
