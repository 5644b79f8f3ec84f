"""The texts that several tests of the report look at."""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:  # at run time each fixture imports it: shape checks wrap clearhead before that
    from tests.report.fakes import FakeTrace

HOSTILE = (
    "<script>alert(1)</script>",
    '"\' onmouseover="alert(1)',
    "&lt;b&gt;",
    "\u202eevil",
    "\x1b[31mred\x1b]0;title\x07",
    "\x9b1m",
    "\x00",
    "\u2028\u2029",
    "\ud800",
    "a" + "\u0301" * 40,
    "x" * 300,
    "漢" * 120,
    "[bold red]markup[/]",
    ":smile:",
    "\ufe0f\u200d\ufeff",
    "\r\n\t\x0b\x0c",
    "\U000e0041",
)


@pytest.fixture
def animal() -> "FakeTrace":
    """The sentence of the README, with a first token that soaks up attention."""
    from tests.report.fakes import FakeTrace

    return FakeTrace.of(
        *("The", " animal", " did", " not", " cross", " the", " street", " because", " it"),
        *(" was", " tired", "."),
        contribution=(0.03, 0.3, 0.01, 0.02, 0.05, 0.004, 0.12, 0.06, 0.2),
        attention=(0.6, 0.1, 0.01, 0.02, 0.05, 0.004, 0.12, 0.06, 0.1),
    )


@pytest.fixture
def hostile() -> "FakeTrace":
    """Tokens that try to act on the place where they are shown, in an encoder."""
    from clearhead.tokens.pieces import Piece
    from tests.report.fakes import FakeTrace

    emoji = (Piece("😀", part, 4) for part in range(1, 5))
    control = Piece("<|im_start|>", special=True)
    return FakeTrace.of(control, *HOSTILE, *emoji, " word", causal=False, likeliest=())


@pytest.fixture
def thousand() -> "FakeTrace":
    """A long text with four strong sources far apart."""
    from tests.report.fakes import FakeTrace

    weak = (0.001,) * 300
    return FakeTrace.of(
        "Once",
        *(f" w{number}" for number in range(1, 1000)),
        contribution=(0.5, *weak, 0.3, *weak, 0.2, 0.3, *((0.0001,) * 200)),
    )
