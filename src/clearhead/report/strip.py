"""Lay the token strip out as lines: prose that wraps, each source with a gauge before it.

    The ▂animal did not ▇cross the ▄street because ⟦▅it⟧┊ was tired.

The gauge's height is the share's band of the absolute log₂ scale, so the strip reads the same
without colour; colour says it again. ``⟦ ⟧`` frame the chosen token. Behind ``┊`` stand tokens that
came later and cannot reach it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import chop_cells
from rich.text import Text

from clearhead.report.parts import SourceToken, Stretch, Strip
from clearhead.report.sentences import folded
from clearhead.report.visible import cells, visible

__all__ = ["GAUGES", "level_styles", "strip_lines"]

GAUGES = " ▁▂▃▄▅▆▇█"

# From grey to amber at one lightness: what grows is the colour's strength, which reads alike on a
# dark and on a light ground, and to eyes that tell red from green badly.
_STYLES = (
    "",
    "",
    "",
    "",
    "#000000 on #a8a8a0",
    "#000000 on #b8aa88",
    "#000000 on #cbab68",
    "#000000 on #dfab42",
    "bold #000000 on #f5a800",
)
_GREY, _AMBER = "black on white", "black on yellow"  # a terminal's own sixteen colours
_FEW_STYLES = ("", "", "", "", _GREY, _GREY, _AMBER, _AMBER, "black on bright_yellow")
_TARGET = "bold"
_FAINT = "dim"
_LATER = "dim"
_MOST_SPACES = 4


@dataclass(frozen=True, slots=True)
class _Span:
    """A run of cells that stays together where it fits on a line."""

    text: str
    style: str
    space_before: bool = False
    may_break: bool = False
    ends_line: bool = False


_SPACE = _Span("", "", space_before=True)


def level_styles(*, few_colours: bool = False) -> Sequence[str]:
    """Give the style of each band, weakest first; ``few_colours`` for sixteen of them."""
    return _FEW_STYLES if few_colours else _STYLES


def strip_lines(strip: Strip, width: int, *, styles: Sequence[str] = _STYLES) -> list[Text]:
    """Wrap the strip to lines of at most ``width`` cells.

    Args:
        strip: the tokens with their shares, and which stretches are folded.
        width: cells a line may take; at least 2.
        styles: the style of each band.

    Returns:
        One styled text a line.
    """
    lines = [Text()]
    for word in _words(_spans(strip, styles)):
        room = width - lines[-1].cell_len
        needed = sum(cells(span.text) for span in word) + word[0].space_before
        if lines[-1].cell_len and needed > room:
            lines.append(Text())
        for span in word:
            _append(lines, span, width)
        if word[-1].ends_line:
            lines.append(Text())
    return lines if lines[-1].cell_len or len(lines) == 1 else lines[:-1]


def _append(lines: list[Text], span: _Span, width: int) -> None:
    if span.space_before and lines[-1].cell_len and not lines[-1].plain.endswith(" "):
        lines[-1].append(" ")
    if cells(span.text) > width - lines[-1].cell_len and lines[-1].cell_len:
        lines.append(Text())
    first, *rest = chop_cells(span.text, width) if span.text else [""]
    lines[-1].append(first, span.style)
    lines.extend(Text(piece, span.style) for piece in rest)


def _words(spans: Iterator[_Span]) -> Iterator[list[_Span]]:
    word: list[_Span] = []
    for span in spans:
        if word and (span.space_before or span.may_break or word[-1].ends_line):
            yield word
            word = []
        word.append(span)
    if word:
        yield word


def _spans(strip: Strip, styles: Sequence[str]) -> Iterator[_Span]:
    for stretch in strip.stretches:
        if stretch.folded:
            yield from _fold(stretch, strip)
            continue
        for token in strip.tokens[stretch.start : stretch.stop]:
            yield from _token(token, strip, styles)


def _fold(stretch: Stretch, strip: Strip) -> Iterator[_Span]:
    for place, word in enumerate(folded(stretch, strip).split(" ")):
        yield _Span(word, "dim italic", space_before=True, may_break=place == 0)
    yield _SPACE


def _token(token: SourceToken, strip: Strip, styles: Sequence[str]) -> Iterator[_Span]:
    is_target = token.position == strip.target
    if token.text == " " and not token.level and not is_target:
        yield _SPACE
        return
    spaced, shown = token.space_before, _shown(token)
    style = _style(token, styles, is_target=is_target)
    ends_line = token.text.endswith("\n") and not _breaks_again(strip.tokens, token.position + 1)
    wide = cells(shown[:1]) == 2
    gauge = GAUGES[token.level].strip()
    if is_target:
        yield _Span("⟦", _TARGET, space_before=spaced, may_break=wide)
        yield _Span(f"{gauge}{shown}", f"{_TARGET} {style}")
        closing = "⟧┊" if strip.causal and token.position + 1 < len(strip.tokens) else "⟧"
        yield _Span(closing, _TARGET, ends_line=ends_line)
    else:
        yield _Span(f"{gauge}{shown}", style, spaced, may_break=wide, ends_line=ends_line)


def _shown(token: SourceToken) -> str:
    shown = visible(token.text.removeprefix(" ") if token.space_before else token.text)
    body = shown.strip(" ")
    before = len(shown) - len(shown.lstrip(" "))
    after = len(shown) - before - len(body)
    shown = f"{_spaces(before)}{body}{_spaces(after)}" or "‹empty›"
    if token.parts > 1:
        shown = f"{shown}[{token.part}/{token.parts}]"
    return shown


def _spaces(count: int) -> str:
    return f"␣×{count}" if count > _MOST_SPACES else "␣" * count


def _breaks_again(tokens: Sequence[SourceToken], position: int) -> bool:
    return position < len(tokens) and tokens[position].text.lstrip(" ").startswith(("\n", "\r"))


def _style(token: SourceToken, styles: Sequence[str], *, is_target: bool) -> str:
    if not token.reachable:
        return _LATER
    special = "italic " if token.special else ""
    if token.level == 0 and not is_target:
        return f"{special}{_FAINT}".strip() if token.special else ""
    return f"{special}{styles[token.level]}".strip()
