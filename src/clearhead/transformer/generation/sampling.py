"""From logits to the next token: the most probable one, or one drawn from the most probable."""

import math

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from clearhead.errors import InputError
from clearhead.transformer.generation.settings import SEEDS, Sampling

__all__ = ["Sampler", "probabilities"]


def probabilities(
    logits: Float[Tensor, "vocabulary"], sampling: Sampling
) -> Float64[Tensor, "vocabulary"]:
    """The probabilities that a token is drawn with.

    ``p = softmax(z / temperature)``, then of those the top_k, then of those the top_p, each time
    divided by what is left

    z is (vocabulary,), and so is p. top_k keeps every token that is no less probable than the k-th,
    so a tie at the border stays whole. top_p keeps a token where the more probable ones together
    have less than top_p: the fewest tokens that reach it, and one at least; of equally probable
    ones the first by id goes first.

    Args:
        logits: of one position; −inf is never drawn.
        sampling: temperature above 0, top_k, top_p.

    Returns:
        p, in float64, on the device of the logits.

    Cost: linear in the vocabulary, V log V with top_p.

    Source: Fan et al. 2018, "Hierarchical Neural Story Generation", section 5.4 (top_k); Holtzman
    et al. 2020, "The Curious Case of Neural Text Degeneration", section 3.1, equations 2 and 3
    (top_p, "nucleus") and section 3.3 (temperature).
    """
    scores = logits.double()
    scores = (scores - scores.max()) / sampling.temperature
    if sampling.top_k is not None and sampling.top_k < len(scores):
        border = scores.topk(sampling.top_k).values[-1]
        scores = scores.masked_fill(scores < border, -math.inf)
    p = scores.softmax(-1)
    if sampling.top_p is None or sampling.top_p == 1:
        return p
    falling, order = p.sort(descending=True, stable=True)
    above = falling.cumsum(-1) - falling
    p = p.index_fill(-1, order[above >= sampling.top_p], 0.0)
    return p / p.sum()


class Sampler:
    """Chooses the tokens of one row, with random numbers of its own.

    Args:
        sampling: how.
        row: number of the row in its batch: it draws with the seed plus this number.
    """

    def __init__(self, sampling: Sampling, *, row: int = 0) -> None:
        self._sampling = sampling
        self._generator = torch.Generator()
        self.seed: int | None = None
        """What the random numbers began with; None where none are needed."""
        if sampling.temperature > 0:
            drawn = self._generator.seed() % len(SEEDS)
            self.seed = drawn if sampling.seed is None else sampling.seed + row
            self._generator.manual_seed(self.seed)

    def choose(self, logits: Float[Tensor, "vocabulary"]) -> int:
        """The next token.

        One number u is drawn evenly from [0, 1), and the token taken is the first by id whose
        probability, together with that of all before it, is above u.

        Args:
            logits: of one position.

        Raises:
            InputError: the largest logit is no number.
        """
        best, token = logits.max(-1)
        if not math.isfinite(float(best)):
            raise InputError(
                f"model: its largest logit is {float(best)}, which is no score: weights that are "
                "broken, or numbers too large for their dtype; float16 ends at 65504, so load it "
                "with dtype='float32' or 'bfloat16'"
            )
        if self.seed is None:
            return int(token)
        reached = probabilities(logits, self._sampling).cpu().cumsum(-1)
        u = torch.rand((), generator=self._generator, dtype=torch.float64)
        total = reached[-1]
        # rounded, u times the sum may be the sum itself, which no token is above
        place = (u * total).clamp(max=torch.nextafter(total, torch.zeros_like(total)))
        return int(torch.searchsorted(reached, place, right=True))
