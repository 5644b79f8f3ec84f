"""A block that is learned through runs again on the way back; another runs once, as it is."""

import pytest
import torch
from torch import Tensor

from clearhead.pipeline.recomputing import recomputing
from clearhead.pipeline.rule import ScoreRule
from tests.laws.calls import draw


@pytest.mark.parametrize("learned", ["query", "bias", None])
def test_a_block_runs_again_where_it_is_learned_through(
    learned: str | None, generator: torch.Generator
) -> None:
    call, bias = draw(generator, n=4), torch.zeros(4, 4)
    parts = {"query": call.query, "bias": bias}
    if learned is not None:
        parts[learned].requires_grad_()
    rule = ScoreRule(bias=bias).bind(call.query, call.key)
    runs: list[int] = []

    def block(query: Tensor, rows: range) -> tuple[Tensor, Tensor]:
        runs.append(len(rows))
        return query.sin() + bias.sum().exp(), query.cos()

    run = recomputing(block, call.query, rule=rule)
    assert (run is block) == (learned is None)
    first, second = run(call.query, range(3))
    assert torch.equal(first, call.query.sin() + 1)
    assert torch.equal(second, call.query.cos())
    if learned is not None:
        found = torch.autograd.grad(first.sum(), parts[learned])[0]  # the second is not asked for
        true = torch.autograd.grad(block(call.query, range(3))[0].sum(), parts[learned])[0]
        torch.testing.assert_close(found, true)
        assert len(runs) == 3
    with torch.no_grad():
        assert recomputing(block, call.query, rule=rule) is block
