"""Reading prompts in parts and token by token gives the logits of the whole text."""

import pytest
import torch

from clearhead.transformer.generation import reading
from clearhead.transformer.generation.reading import CachedReader, left_padded
from tests.transformer.tiny_models import BOTH, DECODERS, some_ids, tiny

#: Angles and temperatures are float32 in any model; all else here is float64.
ROUNDING = 2**-20


def test_rows_end_at_one_place() -> None:
    ids, real = left_padded([[1, 2, 3], [4]], torch.device("cpu"))
    assert ids.tolist() == [[1, 2, 3], [0, 0, 4]]
    assert real.tolist() == [[True, True, True], [False, False, True]]


def last_logits(model, row, source=None) -> torch.Tensor:
    encoded = None if source is None else model.encode(torch.tensor([source]))
    with torch.no_grad():
        return model(torch.tensor([row]), source=encoded).logits[0, -1]


@pytest.mark.parametrize("name", [*DECODERS, *BOTH])
@pytest.mark.parametrize("part", [1, 4, 1024])
def test_parts_and_steps_equal_the_whole(
    name, part, generator, seeded_weights, monkeypatch
) -> None:
    monkeypatch.setattr(reading, "PART", part)
    model = tiny(name)
    rows = [some_ids(generator, length).tolist() for length in (13, 3, 8)]
    sources = None
    if model.encoder is not None:
        sources = [some_ids(generator, length).tolist() for length in (4, 9, 2)]
    reader = CachedReader(model, rows, capacity=20, sources=sources)
    said: list[int] = []
    found = reader.begin(said.append)
    assert said[-1] == 13
    assert said == sorted(said)

    def check(rows, sources) -> None:
        for logits, row, source in zip(found, rows, sources or [None] * 3, strict=False):
            assert (logits - last_logits(model, row, source)).abs().max() <= ROUNDING

    check(rows, sources)
    for token in (5, 6):
        rows = [[*row, token + place] for place, row in enumerate(rows)]
        found = reader.step([row[-1] for row in rows])
        check(rows, sources)
    reader.keep([2, 0])
    rows = [[*rows[2], 7], [*rows[0], 8]]
    found = reader.step([7, 8])
    check(rows, None if sources is None else [sources[2], sources[0]])
