"""Laws of any Transformer that can be built, on random ones: see `tests.laws.architectures`.

Each runs on several of each kind, other ones in every run. Equal within rounding is 1e-12 of the
largest number in float64, norms and angles included; what a token may not see changes no bit.
"""

import itertools

import pytest
import torch

from clearhead.errors import InputError
from tests.accuracy import assert_double
from tests.laws.architectures import (
    KINDS,
    VOCABULARY,
    Drawing,
    filled,
    row_of,
    run,
    some_ids,
    source_of,
)
from tests.transformer.doubled import Doubled

SIDES = ("left", "right")
DRAWN = pytest.mark.parametrize("drawn", range(3))
EVERY = pytest.mark.parametrize("kind", KINDS)


# ----------------------------------------------------------------------------------------- order


@EVERY
@DRAWN
@torch.no_grad()
def test_without_positions_permuting_what_is_read_both_ways_permutes_its_vectors(
    kind: str, drawn: int, generator: torch.Generator
) -> None:
    """An encoder's vectors are permuted alike; a decoder of one layer, or one that looks at what
    an encoder made, says the same after all of it."""
    drawing = Drawing(generator, placed=False, local=False)
    model, ids = drawing.model(kind), some_ids(generator, 1, 9)
    order, read = torch.randperm(9, generator=generator), some_ids(generator, 1, 4)
    with Doubled():
        if kind == "encoder":
            assert_double(run(model, ids[:, order]), run(model, ids)[:, order])
        elif kind == "decoder":
            model.layers = model.layers[:1]
            order = torch.cat((order[order != 8], torch.tensor([8])))
            assert_double(run(model, ids[:, order])[:, -1], run(model, ids)[:, -1])
        else:
            plain, other = (model.encode(each) for each in (ids, ids[:, order]))
            assert_double(run(model, read, source=other), run(model, read, source=plain))


# --------------------------------------------------------------------------------------- padding


@EVERY
@DRAWN
@pytest.mark.parametrize("side", SIDES)
@torch.no_grad()
def test_what_stands_in_padding_changes_no_bit(
    side: str, kind: str, drawn: int, generator: torch.Generator
) -> None:
    model = Drawing(generator).model(kind, dtype=torch.float32)
    texts = [some_ids(generator, n) for n in (11, 6, 1)]
    ids, real = filled(texts, side=side, width=11, generator=generator)
    other = torch.where(real, ids, (ids + 1) % VOCABULARY)
    source = source_of(model, generator, rows=3)
    before, after = (
        model(each, attention_mask=real, source=source, logits_to_keep=0) for each in (ids, other)
    )
    assert torch.equal(before.hidden[real], after.hidden[real])
    if before.logits is not None:
        assert torch.equal(before.logits[real], after.logits[real])
    if before.pooled is not None:
        assert torch.equal(before.pooled, after.pooled)
    if model.encoder is not None:
        told = (model.encode(each, attention_mask=real) for each in (ids, other))
        seen = [run(model, ids, attention_mask=real, source=each)[real] for each in told]
        assert torch.equal(*seen)


@EVERY
@DRAWN
@torch.no_grad()
def test_the_amount_of_padding_changes_nothing(
    kind: str, drawn: int, generator: torch.Generator
) -> None:
    model, text = Drawing(generator).model(kind), some_ids(generator, 7)
    with Doubled():
        source = source_of(model, generator, rows=1)
        alone = model(text[None], source=source)
        for side, width in itertools.product(SIDES, (8, 12, 40)):
            ids, real = filled([text], side=side, width=width, generator=generator)
            got = model(ids, attention_mask=real, source=source)
            assert_double(got.hidden[real], alone.hidden[0])
            if got.pooled is not None:
                assert_double(got.pooled, alone.pooled)


# ------------------------------------------------------------------------------------- neighbours


@EVERY
@DRAWN
@torch.no_grad()
def test_what_a_neighbour_says_changes_no_bit(
    kind: str, drawn: int, generator: torch.Generator
) -> None:
    model = Drawing(generator, mixing=False).model(kind, dtype=torch.float32)
    texts = [some_ids(generator, n) for n in (5, 11, 8)]
    ids, real = filled(texts, side="left", width=11, generator=generator)
    other, source = (ids + 1) % VOCABULARY, source_of(model, generator, rows=3)
    for row in range(3):
        changed = other.clone()
        changed[row] = ids[row]
        before, after = (run(model, i, attention_mask=real, source=source) for i in (ids, changed))
        assert torch.equal(before[row, real[row]], after[row, real[row]])


@EVERY
@DRAWN
@pytest.mark.parametrize("side", SIDES)
@torch.no_grad()
def test_neighbours_of_any_length_do_not_matter(
    side: str, kind: str, drawn: int, generator: torch.Generator
) -> None:
    model = Drawing(generator).model(kind)
    texts = [some_ids(generator, n) for n in (1, 11, 6, 8)]
    ids, real = filled(texts, side=side, width=13, generator=generator)
    with Doubled():
        source = source_of(model, generator, rows=4)
        together = run(model, ids, attention_mask=real, source=source)
        for row, text in enumerate(texts):
            alone = run(model, text[None], source=row_of(source, row))
            assert_double(together[row, real[row]], alone[0])


@pytest.mark.parametrize("kind", ["decoder", "encoder"])
@DRAWN
@torch.no_grad()
def test_packed_documents_are_as_if_apart(
    kind: str, drawn: int, generator: torch.Generator
) -> None:
    model = Drawing(generator, growing=False, chunked=False).model(kind)
    texts = [some_ids(generator, n) for n in (4, 1, 7)]
    documents = torch.tensor([[5] * 4 + [2] * 1 + [9] * 7])
    with Doubled():
        packed = run(model, torch.cat(texts)[None], documents=documents)
        apart = [run(model, text[None])[0] for text in texts]
    assert_double(packed[0], torch.cat(apart))


def test_documents_that_are_not_side_by_side_are_refused(generator: torch.Generator) -> None:
    """A text in two places: how far its tokens stand from each other would be anybody's guess."""
    model, ids = Drawing(generator, chunked=False).model("encoder"), some_ids(generator, 2, 3)
    with pytest.raises(InputError) as caught:
        model(ids, documents=torch.tensor([[4, 4, 1], [4, 1, 4]]))
    assert str(caught.value) == (
        "the model cannot read this: documents must have each text's tokens side by side, "
        "and row 1 has not"
    )


# -------------------------------------------------------------------------------- the same again


@EVERY
@DRAWN
@torch.no_grad()
def test_two_runs_are_bit_equal(kind: str, drawn: int, generator: torch.Generator) -> None:
    model, ids = Drawing(generator).model(kind, dtype=torch.float32), some_ids(generator, 2, 11)
    source = source_of(model, generator, rows=2)
    assert torch.equal(run(model, ids, source=source), run(model, ids, source=source))
