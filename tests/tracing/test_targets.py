"""What may be given for a decoder to read, and what each wrong target is told."""

from dataclasses import replace

import pytest
import torch
from tokenizers import processors

from clearhead.errors import InputError, TokenError
from clearhead.tokens.tokenizer import TextTokenizer
from clearhead.tracing.targets import read_targets, stacked
from clearhead.tracing.trace import trace
from tests.tokens.tiny import byte_level
from tests.tracing.shapes import ACROSS

NOT_KNOWN = (
    "target: what this model's decoder begins with is not known; give target= as token ids, the "
    "token it begins with first"
)


@pytest.fixture
def words():
    """A tokenizer that ends every text with </s>, as T5's does."""
    return _ending("$A </s>")


@pytest.fixture
def both():
    """A tokenizer that puts <s> before and </s> after every text, as BART's does."""
    return _ending("<s> $A </s>")


def _ending(template: str) -> TextTokenizer:
    tokenizer = byte_level()
    tokenizer.post_processor = processors.TemplateProcessing(
        single=template, special_tokens=[("<s>", 0), ("</s>", 1)]
    )
    return TextTokenizer.wrap(tokenizer)


def read(target, words=None, *, start=(), count=1):
    return [row.tolist() for row in read_targets(target, words, start=start, count=count)]


@pytest.mark.parametrize(
    "given", [[5, 6], (5, 6), [[5, 6]], torch.tensor([5, 6]), torch.tensor([[5, 6]]).int()]
)
def test_ids_are_taken_as_they_are(given):
    assert read(given) == [[5, 6]]
    assert read(given, start=(7,), count=3) == [[5, 6]] * 3


def test_left_out_it_is_what_the_decoder_begins_with():
    assert read(None, start=(7,)) == [[7]]
    assert read(None, start=(7, 0), count=2) == [[7, 0], [7, 0]]


def test_a_text_stands_after_the_start_and_is_not_ended(words, both):
    he = words.encode("he", special=False)
    assert words.encode("he") == [*he, 1]
    assert read("he", words, start=(7,)) == [[7, *he]]
    assert both.encode("he") == [0, *he, 1]
    # the token that always comes second is the one the text begins with: once
    for start in ((2,), (2, 0)):
        assert read("he", both, start=start) == [[2, 0, *he]]
    assert read("he", words, start=(2, 0)) == [[2, 0, *he]]


def test_what_a_person_wrote_at_the_end_stays(words):
    he = words.encode("he", special=False)
    assert read("he</s>", words, start=(7,)) == [[7, *he, 1]]


def test_one_for_each_source(words):
    he, e = (words.encode(text, special=False) for text in ("he", "e"))
    assert read(["he", "e"], words, start=(7,), count=2) == [[7, *he], [7, *e]]
    assert read([[7, 5], [7]], count=2) == [[7, 5], [7]]
    assert read(torch.tensor([[7, 5], [7, 6]]), count=2) == [[7, 5], [7, 6]]


@pytest.mark.parametrize(
    ("given", "count", "error", "text"),
    [
        (None, 1, InputError, NOT_KNOWN),
        ("he", 1, InputError, NOT_KNOWN),
        (
            [[1], [2]],
            3,
            InputError,
            "target must be one sequence, or one for each source (3), got 2",
        ),
        (
            [{"role": "user", "content": "he"}],
            1,
            InputError,
            "target must be text or token ids, got chat messages",
        ),
        ([], 1, TokenError, "target: there are no tokens to look at"),
        ("", 1, TokenError, "target: the text is empty: there is nothing to look at"),
        (
            [0.5],
            1,
            InputError,
            (
                "target: token ids must be integers, (n,) or (batch, n), got torch.float32 of "
                "shape (1,)"
            ),
        ),
        (
            {"input_ids": [1]},
            1,
            InputError,
            (
                "target: inputs must be text, chat messages, token ids or a list of texts, got "
                "dict: give its ['input_ids']"
            ),
        ),
    ],
)
def test_what_is_no_target_is_said(given, count, error, text, words):
    with pytest.raises(error) as caught:
        read(given, words, count=count)
    assert str(caught.value) == text


def test_text_needs_a_tokenizer():
    with pytest.raises(InputError) as caught:
        read("he", start=(7,))
    assert str(caught.value) == (
        "target: this model brings no tokenizer: give tokenizer=, or token ids in place of text"
    )


def test_targets_of_a_batch_have_one_length():
    assert stacked([torch.tensor([1, 2]), torch.tensor([3, 4])]).tolist() == [[1, 2], [3, 4]]
    with pytest.raises(InputError) as caught:
        stacked([torch.tensor([1, 2]), torch.tensor([3])])
    assert str(caught.value) == (
        "the targets of a batch must have one length, got 2, 1: trace each source with its target "
        "alone"
    )


# -------------------------------------------------------------------------------- through a trace


@pytest.fixture
def model(draw, words):
    config = ACROSS["T5"]
    encoder = replace(config.encoder, vocabulary_size=300)
    model = draw(replace(config, vocabulary_size=300, encoder=encoder))
    model.clearhead_tokenizer = words
    model.clearhead_start_tokens = (7,)
    return model


def test_texts_are_traced_pair_by_pair(model, words):
    he, end = words.encode("he", special=False), 1
    found = trace(model, "he he", target="he")
    assert found.encoder.token_ids[-1] == end
    assert found.decoder.token_ids == (7, *he)
    assert found.encoder.tokens == ("he", " he", "</s>")
    assert (found.cross.find("he"), found.encoder.find("he")) == (1, 1)
    assert len(trace(model, "he").decoder) == 1
    first, second = trace(model, ["he", "a longer text"], target=["he he", "e"])
    assert (len(first.encoder), len(second.encoder)) == (2, 14)
    assert (len(first.decoder), len(second.decoder)) == (3, 2)
    for one in trace(model, ["he", "a longer text"], target="he"):
        assert one.decoder.token_ids == (7, *he)


def test_rows_of_a_batch_may_have_one_target_or_each_its_own(model, ids):
    rows = torch.cat([ids, ids])
    for target, length in (("he", 2), ([[7, 5, 6], [7, 8, 9]], 3), (None, 1)):
        assert [len(found.decoder) for found in trace(model, rows, target=target)] == [length] * 2
    with pytest.raises(InputError, match=r"the targets of a batch must have one length, got 4, 2"):
        trace(model, rows, target=["he e", "e"])
