"""How near two runs of a whole model must be.

``E(x) = max|x − truth|``; the truth is the same model in float64. Rounding errors of many layers
are a sample, so ours may be several times a peer's:

    E(ours) ≤ 4 · E(peer) + 4 · eps · max(1, max|truth|)

What is wrong in a mask, a scale or a position shows thousands of times larger.
"""

import torch
from torch import Tensor

__all__ = ["assert_as_near", "same_until_a_tie"]

EPS = 2.0**-23


def assert_as_near(ours: Tensor, peer: Tensor, truth: Tensor, *, of: str = "") -> None:
    """Hold a result of ours to the rounding that a peer's shows, in the peer's dtype."""
    assert ours.shape == peer.shape == truth.shape
    eps, truth = float(torch.finfo(peer.dtype).eps), truth.double()
    assert truth.isfinite().all()
    error, usual = (float((x.double() - truth).abs().max()) for x in (ours, peer))
    bound = 4 * usual + 4 * eps * max(1.0, float(truth.abs().max()))
    assert error <= bound, f"{of} E(ours) {error:.2e} > {bound:.2e}; E(peer) {usual:.2e}"


def same_until_a_tie(ours: Tensor, peer: Tensor, scores: tuple[Tensor, ...]) -> None:
    """Hold two greedy continuations to each other, until two tokens score alike within rounding.

    Args:
        ours: (batch, tokens).
        peer: likewise.
        scores: the peer's scores for each of the last tokens, (batch, vocabulary) a step.
    """
    assert ours.shape == peer.shape
    start = ours.shape[1] - len(scores)
    assert torch.equal(ours[:, :start], peer[:, :start])
    for row in range(len(ours)):
        for step, given in enumerate(scores):
            if ours[row, start + step] == peer[row, start + step]:
                continue
            best, second = given[row].topk(2).values.tolist()
            assert best - second <= 1e3 * EPS * abs(best), (row, step, best, second)
            break
