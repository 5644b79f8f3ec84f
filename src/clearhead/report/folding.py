"""Which stretches of a long text stand open in a strip, and which fold into one mark."""

from collections.abc import Sequence

from clearhead.report.parts import Stretch

__all__ = ["stretches"]

_OPEN_UP_TO = 160  # a text of so many tokens is read at a glance: about ten lines
_REMARKABLE = 24  # so many of the largest shares stay open
_WORTH_SEEING = 2.0**-8  # the scale's first band: less would show no shade
_AROUND = 6  # tokens kept on either side, so that what stands open can be read
_SHORTEST_FOLD = 16  # folding fewer would hide more than it saves


def stretches(shares: Sequence[float], target: int) -> tuple[Stretch, ...]:
    """Divide a text into stretches that stand open and stretches that fold.

    A short text stands open as a whole. Of a long one the chosen token, the first token and the
    largest shares stay, each with a few neighbours; what lies between folds.

    Args:
        shares: one a token.
        target: the chosen token's position.

    Returns:
        Stretches in order, covering every token once.
    """
    count = len(shares)
    if count <= _OPEN_UP_TO:
        return (_stretch(shares, 0, count, folded=False),)
    by_share = sorted(range(count), key=lambda position: -shares[position])
    remarkable = {target, *(p for p in by_share[:_REMARKABLE] if shares[p] >= _WORTH_SEEING)}
    kept = sorted({0, *(q for p in remarkable for q in range(p - _AROUND, p + _AROUND + 1))})
    return _divided(shares, [position for position in kept if 0 <= position < count])


def _divided(shares: Sequence[float], kept: Sequence[int]) -> tuple[Stretch, ...]:
    parts: list[Stretch] = []
    start = 0
    for here, following in zip(kept, [*kept[1:], len(shares)], strict=True):
        if following - here - 1 < _SHORTEST_FOLD:
            continue
        parts.append(_stretch(shares, start, here + 1, folded=False))
        parts.append(_stretch(shares, here + 1, following, folded=True))
        start = following
    if start < len(shares):
        parts.append(_stretch(shares, start, len(shares), folded=False))
    return tuple(parts)


def _stretch(shares: Sequence[float], start: int, stop: int, *, folded: bool) -> Stretch:
    inside = shares[start:stop]
    return Stretch(start, stop, folded, share=sum(inside), largest=max(inside))
