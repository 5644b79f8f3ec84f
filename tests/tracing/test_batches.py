"""Sequences that run together: which places are real, which are kept, how long they may be."""

import pytest
import torch

from clearhead.errors import TokenError
from clearhead.tokens.tokenizer import TextTokenizer
from clearhead.tracing.batches import Batch, Order
from clearhead.tracing.models import traceable
from tests.tokens.tiny import byte_level
from tests.tracing.shapes import ALONE

IDS = torch.tensor([[258, 0, 259, 5], [7, 258, 259, 6], [5, 6, 7, 8]])
REAL = torch.tensor([[0, 0, 1, 1], [1, 1, 1, 0], [1, 1, 1, 1]]).bool()
CPU = torch.device("cpu")


@pytest.fixture
def order(draw):
    """What is asked of a model that reads three tokens."""
    model = draw(ALONE["Llama"])
    model.clearhead_name = "tiny"
    return Order(
        adapter=traceable(model),
        words=TextTokenizer.wrap(byte_level()),
        layers=None,
        queries=None,
        keep=(),
        computes_on=CPU,
        lies_on=CPU,
    )


def test_padding_is_left_out(order):
    batch = Batch(order, IDS, REAL, None)
    assert [batch.token_ids(row) for row in range(3)] == [(259, 5), (7, 258, 259), (5, 6, 7, 8)]
    assert [part.batch for part in batch.parts] == [0, 1, 2]
    assert batch.parts[0].tokens.tolist() == [2, 3]
    assert batch.parts[2].tokens is None
    assert [part.whole for part in batch.parts] == [False, False, True]
    assert batch.pieces(0)[0].text == " he"
    assert batch.last.tolist() == [3, 2, 3]
    assert torch.equal(batch.mask, REAL)


def test_without_a_mask_every_token_is_real(order):
    batch = Batch(order, IDS, None, None)
    assert batch.mask is None
    assert batch.last.tolist() == [3, 3, 3]
    assert batch.token_ids(1) == (7, 258, 259, 6)
    assert batch.kept_queries(1).tolist() == [0, 1, 2, 3]


def test_queries_are_counted_among_the_real_tokens(order):
    batch = Batch(order, IDS, REAL, [-1, 0])
    assert [batch.kept_queries(row).tolist() for row in range(3)] == [[1, 0], [2, 0], [3, 0]]
    assert batch.parts[1].query_places().tolist() == [2, 0]


def test_without_a_tokenizer_a_token_is_its_number(order):
    object.__setattr__(order, "words", None)
    assert [piece.text for piece in Batch(order, IDS, REAL, None).pieces(0)] == ["259", "5"]


def test_what_is_longer_than_the_model_reads_is_refused_with_both_numbers(order):
    whole, padded = Batch(order, IDS, None, None), Batch(order, IDS[:2], REAL[:2], None)
    for batch, most in ((whole, 4), (whole, None), (padded, 3)):
        batch.check_length(most, called="text")
    for batch, most, length in ((whole, 3, 4), (padded, 2, 3)):
        with pytest.raises(TokenError) as caught:
            batch.check_length(most, called="source")
        assert str(caught.value) == f"the source has {length} tokens, and tiny reads at most {most}"
