"""What the page's module shows but must not make: names that ``visible`` wrote, and the notes.

The module sets text as it gets it. How a token is made plain to see is decided once, in Python.
"""

from dataclasses import replace
from typing import Any

from clearhead.report.notes import notes_for
from clearhead.report.parts import MEASURES, LookReport, SourceToken
from clearhead.report.sentences import noted, which_token
from clearhead.report.visible import label, shortened, visible

__all__ = ["ANSWER", "piece", "shown"]

#: The answer stands in the strip like one passage more.
ANSWER = {"name": "The answer"}

_LONGEST_NAME = 24  # cells of a token within a sentence, as the sentences have it
_MOST_SPACES = 4


def shown(report: LookReport, values: dict[str, Any]) -> dict[str, Any]:
    """Gather the names and notes that the module shows.

    Args:
        report: the tree of parts.
        values: the page's values, for what is asked of documents.

    Returns:
        ``words`` holds [label, name in a sentence, piece of the strip] once for each kind of token,
        ``token`` each token's word; ``segments`` the names of passages; ``notes`` by measure.
    """
    places: dict[tuple[str, str, str], int] = {}
    token = [places.setdefault(_word(entry), len(places)) for entry in report.strip.tokens]
    documents: dict[str, Any] = values["look"].get("documents") or {"segments": []}
    return {
        "format": "clearhead-shown/1",
        "words": [list(word) for word in places],
        "token": token,
        "segments": [visible(segment["name"]) for segment in [*documents["segments"], ANSWER]],
        "layers": _layers(report),
        "likeliest": [label(likely.text) for likely in report.next_tokens.likeliest],
        "notes": {by: _notes(report, by) for by in MEASURES},
    }


def piece(token: SourceToken) -> str:
    """Write a token as it stands in the strip: without the space before it, long blanks counted."""
    text = token.text.removeprefix(" ") if token.space_before else token.text
    body = text.strip(" ")
    if len(text) - len(body) > _MOST_SPACES:
        before = len(text) - len(text.lstrip(" "))
        after = len(text) - len(body) - before
        return _parted(f"{_spaces(before)}{label(body)}{_spaces(after)}", token)
    return label(text, part=token.part, parts=token.parts) or "‹empty›"


def _word(token: SourceToken) -> tuple[str, str, str]:
    name = label(token.text.strip(" "), part=token.part, parts=token.parts)
    whole = label(token.text, part=token.part, parts=token.parts)
    return whole, shortened(name or "␣", _LONGEST_NAME), piece(token)


def _spaces(count: int) -> str:
    return f"␣×{count}" if count > _MOST_SPACES else "␣" * count


def _parted(text: str, token: SourceToken) -> str:
    return f"{text}[{token.part}/{token.parts}]" if token.parts > 1 else text


def _layers(report: LookReport) -> str:
    plain = replace(report, strip=replace(report.strip, asked=None, occurrences=1))
    return which_token(plain).partition(". ")[2]


def _notes(report: LookReport, by: Any) -> list[str]:
    chosen = notes_for(report.strip.by, report.heads, report.first_token)
    others = [note for note in report.notes if note not in chosen]
    return [noted(note) for note in (*notes_for(by, report.heads, report.first_token), *others)]
