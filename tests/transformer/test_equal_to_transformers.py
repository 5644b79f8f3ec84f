"""Every family gives the numbers of transformers: all variants, paddings and ways to read.

A cell is one variant, one padding and one way to read, in float64 and in float32. The truth of
every cell is transformers' run of each row *alone*, whole, without padding and without a cache; so
it is proved, too, that neither padding nor neighbours nor the cache change anything.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch
from torch import Tensor

from clearhead.transformer.families.known import FAMILIES
from tests.transformer.beside_theirs import MODES, PADDINGS, Alone, Said, padded, rows
from tests.transformer.doubled import Doubled
from tests.transformer.released_families import (
    RELEASED,
    loaded,
    made,
    model_type,
    saved,
    twin,
)

EPS = 2.0**-23
ENCODERS = {"bert", "roberta", "distilbert"}
POOLED = ("bert headless", "roberta headless")


def modes_of(variant: str) -> Sequence[str]:
    """Ways to read a model: an encoder reads its text only once, whole."""
    return ("full pass",) if model_type(variant) in ENCODERS else tuple(MODES)


CELLS = [(v, p, mode) for v in RELEASED for p in PADDINGS for mode in modes_of(v)]
GRID = sorted({(v, p): None for v, p, _ in CELLS})


def test_there_are_600_cells_and_all_15_families() -> None:
    assert len(CELLS) == len(set(CELLS)) == 603
    assert {model_type(variant) for variant in RELEASED} == set(FAMILIES)
    assert len(FAMILIES) == 15


@pytest.mark.parametrize(("variant", "padding"), GRID)
@torch.no_grad()
def test_numbers_are_those_of_transformers(
    variant: str,
    padding: str,
    generator: torch.Generator,
    seeded_weights: None,
    tmp_path: Path,
) -> None:
    """In float64, angles and norms included, within 1e-10; in float32 as near as theirs."""
    theirs, given = made(variant), rows(generator, padding)
    ours = {
        dtype: loaded(saved(theirs, tmp_path), dtype) for dtype in (torch.float64, torch.float32)
    }
    with Doubled():
        truth = Alone(twin(theirs, variant))
    yardstick, wrong = Yardstick(Alone(theirs), truth, generator), []
    for mode in modes_of(variant):
        begin = generator.get_state()
        with Doubled():
            said = MODES[mode](ours[torch.float64], given, generator)
            worst = largest(truth, said, lambda one: one.vectors)
        if not worst <= 1e-10:
            wrong.append(f"{mode}, float64: {worst:.1e} > 1e-10")
        generator.set_state(begin)  # both read the same texts
        wrong += yardstick.faults(mode, MODES[mode](ours[torch.float32], given, generator))
    assert not wrong, f"{variant}, padding {padding}: " + "; ".join(wrong)


@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("variant", POOLED)
@torch.no_grad()
def test_pooled_vectors_are_those_of_transformers(
    variant: str,
    padding: str,
    generator: torch.Generator,
    seeded_weights: None,
    tmp_path: Path,
) -> None:
    """The first real token is pooled, wherever it stands."""
    theirs, given = made(variant), rows(generator, padding)
    ours = loaded(saved(theirs, tmp_path), torch.float64)
    ids, real = padded(given.texts, side=given.side)
    with Doubled():
        alone = Alone(twin(theirs, variant))
        pooled = ours(ids, attention_mask=real).pooled
        for row, text in enumerate(given.texts):
            expected = alone.of(text, given.sources[row])["pooler_output"][0]
            assert (pooled[row] - expected).abs().max() <= 1e-10


# --------------------------------------------------------------------------------------- rounding


def largest(truth: Alone, said: Sequence[Said], of: Callable[[Said], Tensor]) -> float:
    """The largest error of some vectors, E = max|x − truth|."""
    errors = [(of(one).double() - truth.vectors(one)).abs().max() for one in said]
    return float(torch.stack(errors).max())


@dataclass(eq=False)
class Yardstick:
    """What rounding does to transformers' own numbers, measured as often as a judgement needs it.

    ``E(ours) ≤ 1.5 · E(theirs) + 2 · eps · max|truth|``, the house's rule for float32. E is the
    largest error of a cell; the truth is float64 throughout. E(theirs) is a sample: the same sums
    rounded otherwise have another error, and at a token where much cancels a far larger one. So
    before ours are called wrong, theirs are measured 8 and 64 times more, each weight moved at
    random to the next float32 number or left, and their largest error counts. A wrong mask, scale
    or position shows thousands of times larger.
    """

    theirs: Alone
    truth: Alone
    generator: torch.Generator
    _moved: list[Alone] = field(default_factory=list)

    def faults(self, mode: str, said: Sequence[Said]) -> list[str]:
        """A line if what ours said is further from the truth than rounding explains."""
        top = max(float(self.truth.vectors(one).abs().max()) for one in said)
        error = largest(self.truth, said, lambda one: one.vectors)
        usual = largest(self.truth, said, self.theirs.vectors)
        for draws in (0, 8, 64):
            while len(self._moved) < draws:
                self._moved.append(self._move())
            more = [largest(self.truth, said, other.vectors) for other in self._moved[:draws]]
            bound = 1.5 * max(usual, *more, 0.0) + 2 * EPS * top
            if error <= bound:
                return []
        return [f"{mode}, float32: {error:.1e} > {bound:.1e}, and theirs is {usual:.1e}"]

    def _move(self) -> Alone:
        """Theirs with each weight at its own number, the next one below or the next one above."""
        model = copy.deepcopy(self.theirs.model)
        for weight in model.parameters():
            steps = torch.randint(-1, 2, weight.shape, generator=self.generator)
            weight.copy_(torch.where(steps == 0, weight, weight.nextafter(steps * torch.inf)))
        return Alone(model)
