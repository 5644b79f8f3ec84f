"""The absolute scale of shades: each band is twice the one before, and none is ever refitted."""

from clearhead.report.parts import Band

__all__ = ["SCALE", "level_of", "shade"]

#: Shares and weights of at least 1/256, 1/128, … 1/2.
SCALE = tuple(Band(level, 2.0 ** (level - 9)) for level in range(1, 9))

_LAST_FAINT = 5  # on stronger amber the notebook's own ink may be too light to read


def level_of(share: float) -> int:
    """Find the band of the scale that a share or a weight falls in, 0 for below the scale."""
    return sum(share >= band.at_least for band in SCALE)


def shade(level: int) -> str:
    """Write the style of a band where there is no style sheet: amber over whatever ground.

    Args:
        level: the band, 0 for below the scale.

    Returns:
        A value for an attribute ``style``.
    """
    ink = ";color:#000" if level > _LAST_FAINT else ""
    return f"background:rgba(245,168,0,{level * 0.11:.2f}){ink}"
