"""Reading prompts in parts and token by token gives the logits of the whole text."""

import pytest
import torch

import clearhead as ch
from clearhead.pipeline.tap import Tap, tapping
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
@pytest.mark.parametrize("part", [1, 4, 2048])
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


def test_what_hooks_and_taps_collect_can_be_trained_on(generator, seeded_weights) -> None:
    model, ids = tiny(), some_ids(generator, 5).tolist()
    collected: list[torch.Tensor] = []
    part = model.layers[0].feed_forward
    handle = part.register_forward_hook(lambda _module, _given, made: collected.append(made))
    ch.generate(model, ids, max_new_tokens=3)
    handle.remove()
    assert len(collected) == 3
    probe = torch.nn.Linear(model.config.d_model, 1).double()
    probe(collected[0]).sum().backward()
    assert probe.weight.grad is not None

    class Collecting(Tap):
        def visit(self, site, quantity, value):
            collected.append(value)
            return super().visit(site, quantity, value)

    with tapping(Collecting()):
        ch.generate(model, ids, max_new_tokens=2)
    assert not any(one.is_inference() for one in collected)


def test_autocast_is_let_round(generator, seeded_weights) -> None:
    model, ids = tiny(dtype=torch.float32), some_ids(generator, 5).tolist()
    with torch.autocast("cpu", torch.bfloat16):
        assert len(ch.generate(model, [ids, ids[:3]], max_new_tokens=4)) == 2


def test_its_cache_holds_what_was_read(generator, seeded_weights) -> None:
    model, ids = tiny(), some_ids(generator, 5).tolist()
    reader = CachedReader(model, [ids], capacity=8)
    reader.begin(lambda _: None)
    reader.step([3])
    assert reader.cache.lengths == (6,)
    assert reader.cache.capacity == 8
