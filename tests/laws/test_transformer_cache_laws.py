"""Laws of the KV cache, in any decoder that can be built: see `tests.laws.architectures`.

Whatever the pieces a text is read in, whoever stands beside it and however much room there is,
every token says what it says in one pass over the whole text.
"""

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from clearhead.transformer.cache import KVCache
from clearhead.transformer.calls import Encoded
from clearhead.transformer.config import LayerKind
from clearhead.transformer.model import Transformer
from tests.accuracy import assert_double
from tests.laws.architectures import Drawing, filled, held, row_of, run, some_ids, source_of
from tests.transformer.doubled import Doubled

SIDES = ("left", "right")
DECODING = pytest.mark.parametrize("kind", ["decoder", "encoder and decoder"])
DRAWN = pytest.mark.parametrize("drawn", range(3))


def read_on(
    model: Transformer,
    texts: Sequence[Tensor],
    ends: Sequence[int],
    *,
    cache: KVCache,
    side: str,
    generator: torch.Generator,
    source: Encoded | None = None,
) -> list[Tensor]:
    """Read each row's text up to its end, padded; the vectors of what was new in each row."""
    bounds = zip(texts, cache.lengths, ends, strict=True)
    pieces = [text[begin:end] for text, begin, end in bounds]
    width = max(1, *map(len, pieces))
    ids, real = filled(pieces, side=side, width=width, generator=generator)
    got = run(model, ids, attention_mask=real, source=source, cache=cache)
    assert cache.lengths == tuple(ends)
    return [vectors[kept] for vectors, kept in zip(got, real, strict=True)]


@DECODING
@DRAWN
@pytest.mark.parametrize("side", SIDES)
@torch.no_grad()
def test_cached_equals_full_at_every_step(
    side: str, kind: str, drawn: int, generator: torch.Generator
) -> None:
    """Rows of different length, read in pieces of any size, padded within each piece."""
    model, lengths = Drawing(generator).model(kind), (13, 5, 10)
    texts, cache = [some_ids(generator, n) for n in lengths], held(model, batch=3)
    with Doubled():
        source = source_of(model, generator, rows=3)
        while cache.lengths != lengths:
            begins, steps = cache.lengths, torch.randint(0, 4, (3,), generator=generator).tolist()
            ends = [min(b + s, n) for b, s, n in zip(begins, steps, lengths, strict=True)]
            given = {"cache": cache, "side": side, "generator": generator, "source": source}
            for row, got in enumerate(read_on(model, texts, ends, **given)):
                text = texts[row][None, : ends[row]]
                whole = run(model, text, source=row_of(source, row))
                assert_double(got, whole[0, begins[row] :])


@DECODING
@DRAWN
@torch.no_grad()
def test_one_token_at_a_time_equals_full(kind: str, drawn: int, generator: torch.Generator) -> None:
    model, ids = Drawing(generator, growing=False).model(kind), some_ids(generator, 2, 12)
    with Doubled():
        source, cache = source_of(model, generator, rows=2), held(model, batch=2)
        steps = [run(model, token, cache=cache, source=source) for token in ids.split(1, 1)]
        assert_double(torch.cat(steps, 1), run(model, ids, source=source))


@DECODING
@DRAWN
@torch.no_grad()
def test_a_reordered_row_goes_on_as_the_row_it_copies(
    kind: str, drawn: int, generator: torch.Generator
) -> None:
    """Rows of different length that look at different texts, made more and fewer."""
    model, texts = Drawing(generator).model(kind), [some_ids(generator, n) for n in (8, 3, 5)]
    cache = held(model, batch=3)
    given = {"cache": cache, "side": "left", "generator": generator}
    with Doubled():
        source = source_of(model, generator, rows=3)
        read_on(model, texts, list(map(len, texts)), source=source, **given)
        for chosen in ([2, 0, 0, 1], [3, 1]):
            cache.reorder(chosen)
            if source is not None:
                source = Encoded(source.hidden[chosen], source.real[chosen])
            texts = [torch.cat((texts[row], some_ids(generator, 2))) for row in chosen]
            parts = read_on(model, texts, list(map(len, texts)), source=source, **given)
            for row, (text, got) in enumerate(zip(texts, parts, strict=True)):
                assert_double(got, run(model, text[None], source=row_of(source, row))[0, -2:])


@DECODING
@DRAWN
@torch.no_grad()
def test_the_capacity_of_a_cache_changes_nothing(
    kind: str, drawn: int, generator: torch.Generator
) -> None:
    model, ids = Drawing(generator).model(kind), some_ids(generator, 2, 9)
    tight, wide = (held(model, batch=2, capacity=n) for n in (9, 700))
    for memory in wide.layers:
        memory.key.fill_(torch.nan)  # what was never read must not be looked at
        memory.value.fill_(torch.nan)
    with Doubled():
        source = source_of(model, generator, rows=2)
        for part in ids.split([5, 1, 3], 1):
            got = [run(model, part, cache=cache, source=source) for cache in (wide, tight)]
            assert_double(*got)


@pytest.mark.parametrize("window", [1, 3, 7, 100])
@torch.no_grad()
def test_a_sliding_cache_moves_along_over_several_windows(
    window: int, generator: torch.Generator
) -> None:
    """Texts of more than twice a window's slots, in pieces of any size, one row far ahead."""
    kinds = (LayerKind(window=window), LayerKind(window=window + 2), LayerKind())
    drawing, lengths = Drawing(generator, growing=False), (800, 700)
    model = drawing.model("decoder", pattern=kinds, layers=3, context_length=800)
    texts, cache = [some_ids(generator, n) for n in lengths], held(model, batch=2, capacity=800)
    with Doubled():
        whole = [run(model, text[None])[0] for text in texts]
        while cache.lengths != lengths:
            begins, most = cache.lengths, drawing.one(1, 1, 7, 60, 270)
            ends = [min(b + most, n) for b, n in zip(begins, lengths, strict=True)]
            ends[1] = max(begins[1], ends[1] - 100 if ends[0] < 800 else ends[1])
            given = {"cache": cache, "side": "left", "generator": generator}
            for row, got in enumerate(read_on(model, texts, ends, **given)):
                assert_double(got, whole[row][begins[row] : ends[row]])
    assert cache.layers[0].start > 100
    assert cache.layers[2].start == 0
