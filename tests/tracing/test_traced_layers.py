"""What every trace has: layers by number, and tokens that drew from the columns."""

import pytest

from clearhead.errors import InputError
from clearhead.tokens.pieces import Piece
from clearhead.tracing.encoder_decoder import CrossTrace
from clearhead.tracing.trace import trace
from clearhead.tracing.traced_layers import labels, listed


@pytest.mark.parametrize(
    ("layers", "written"),
    [
        ((), "no layers"),
        ((3,), "layers 3"),
        ((0, 1, 2), "layers 0–2"),
        ((0, 2, 3, 5), "layers 0, 2–3, 5"),
    ],
)
def test_layers_are_written_as_a_person_would(layers, written):
    assert listed(layers) == written


def test_a_cut_character_is_shown_whole():
    assert labels([Piece("é", 1, 2), Piece("é", 2, 2), Piece("a")]) == ("é[1/2]", "é[2/2]", "a")


def test_of_one_sequence_the_columns_are_the_rows(tiny_llama, ids):
    found = trace(tiny_llama, ids)
    assert found.columns is found.pieces
    assert found.sources().tokens == found.tokens


def test_without_layers_there_are_no_heads_and_nothing_to_sum(tiny_llama, ids):
    whole = trace(tiny_llama, ids, queries=[0])
    found = CrossTrace("none", whole.pieces, {}, whole.queries, 0, whole.pieces[:3])
    assert (found.layers, found.heads, list(found), found.dense_nbytes) == ((), 0, [], 0)
    assert len(found) == 11
    assert found.source_tokens == found.tokens[:3]
    with pytest.raises(InputError) as caught:
        found.sources(0)
    assert str(caught.value) == "layers must name at least one layer to sum, got none"
