"""A text that outgrows its angles is read anew, and its logits are those of the whole text."""

from clearhead.positions.kinds import Rotary
from clearhead.positions.scaling import DynamicScaling
from clearhead.transformer.generation.rereading import OutgrowingReader, WholeReader
from tests.transformer.generation.test_reading import ROUNDING, last_logits
from tests.transformer.tiny_models import some_ids, tiny

SCALED = Rotary(scaling=DynamicScaling(4.0, original_context=12))


def check(model, reader, rows) -> None:
    found = reader.begin(lambda _: None)
    for step in range(8):
        for logits, row in zip(found, rows, strict=True):
            assert (logits - last_logits(model, row)).abs().max() <= ROUNDING
        if step == 5:
            reader.keep([1])
            rows = rows[1:]
        rows = [[*row, (step + place) % 29] for place, row in enumerate(rows)]
        found = reader.step([row[-1] for row in rows])


def test_reading_on_past_the_limit(generator, seeded_weights) -> None:
    model = tiny(positions=SCALED, context_length=48)
    rows = [some_ids(generator, length).tolist() for length in (9, 5)]
    check(model, OutgrowingReader(model, rows, limit=12), rows)


def test_a_prompt_past_the_limit(generator, seeded_weights) -> None:
    model = tiny(positions=SCALED, context_length=48)
    rows = [some_ids(generator, length).tolist() for length in (3, 20)]
    check(model, OutgrowingReader(model, rows, limit=12), rows)


def test_reading_all_at_every_step(generator, seeded_weights) -> None:
    model = tiny("windows between")
    rows = [some_ids(generator, length).tolist() for length in (6, 2)]
    check(model, WholeReader(model, rows), rows)


def test_a_decoder_with_an_encoder(generator, seeded_weights) -> None:
    model = tiny("norms around", positions=SCALED)
    rows, sources = [[1, 2], [3]], [some_ids(generator, length).tolist() for length in (4, 6)]
    reader = OutgrowingReader(model, rows, limit=3, sources=sources)
    reader.begin(lambda _: None)
    rows = [[*row, 4] for row in rows]
    reader.step([4, 4])
    reader.keep([1, 0])
    rows = [[*rows[1], 5], [*rows[0], 6]]
    found = reader.step([5, 6])  # the second outgrows it
    for logits, row, source in zip(found, rows, sources[::-1], strict=True):
        assert (logits - last_logits(model, row, source)).abs().max() <= ROUNDING


def test_a_cache_is_given_as_long_as_it_holds(generator, seeded_weights) -> None:
    model = tiny(positions=SCALED, context_length=48)
    rows = [some_ids(generator, 11).tolist()]
    reader = OutgrowingReader(model, rows, limit=12)
    reader.begin(lambda _: None)
    assert reader.cache is not None
    assert reader.cache.lengths == (11,)
    for token in (4, 5):
        reader.step([token])
    assert reader.cache is None
    assert WholeReader(model, rows).cache is None
