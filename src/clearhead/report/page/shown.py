"""What the page's module shows but must not make: names that ``visible`` wrote, and the notes.

The module sets text as it gets it. How a token is made plain to see is decided once, in Python.
"""

from dataclasses import replace
from typing import Any

from clearhead.report.notes import notes_for
from clearhead.report.parts import MEASURES, LookReport, SourceToken, Strip
from clearhead.report.sentences import noted, which_token
from clearhead.report.visible import label, shortened, visible

__all__ = ["name_of", "piece", "segments", "shown"]

_ANSWER = "The answer"  # it stands in the strip like one passage more
_OPEN_UP_TO, _FEWEST_PARAGRAPHS = 160, 3  # the first as stretches fold

_LONGEST_NAME = 24  # cells of a token within a sentence, as the sentences have it
_MOST_SPACES = 4


def shown(report: LookReport, values: dict[str, Any]) -> dict[str, Any]:
    """Gather the names and notes that the module shows.

    Args:
        report: the tree of parts.
        values: the page's values, for what is asked of documents.

    Returns:
        ``words`` holds [label, name in a sentence, piece of the strip] once for each kind of token,
        ``token`` each token's word; ``segments`` the names of passages or paragraphs,
        ``paragraphs`` where those stand; ``notes`` by measure.
    """
    places: dict[tuple[str, str, str], int] = {}
    token = [places.setdefault(_word(entry), len(places)) for entry in report.strip.tokens]
    documents = values["look"].get("documents")
    named = segments(report.strip, documents)
    return {
        "format": "clearhead-shown/1",
        "words": [list(word) for word in places],
        "token": token,
        "segments": [segment["name"] for segment in named],
        "paragraphs": [[part["start"], part["stop"]] for part in named] if not documents else [],
        "layers": _layers(report),
        "likeliest": [label(likely.text) for likely in report.next_tokens.likeliest],
        "notes": {by: _notes(report, by) for by in MEASURES},
    }


def segments(strip: Strip, documents: dict[str, Any] | None) -> list[dict[str, Any]]:
    """List the parts that the text folds by, in order, each with a name, start and stop.

    Args:
        strip: the text.
        documents: the values of the look's documents: its passages and its answer are the parts.
            Where it is None, a long text has its paragraphs.
    """
    if documents is None:
        return _paragraphs(strip)
    named = [{**part, "name": visible(part["name"])} for part in documents["segments"]]
    return [*named, {**documents["answer"], "name": _ANSWER}]


def _paragraphs(strip: Strip) -> list[dict[str, Any]]:
    if len(strip.tokens) <= _OPEN_UP_TO:
        return []
    starts, ended, before = [0], False, ""
    for place, text in enumerate(token.text for token in strip.tokens):
        blank = "\n" in text and not text.strip()
        if ended and not blank:
            starts.append(place)
        after_line = blank and before.endswith("\n")
        ended = text.count("\n") > 1 or after_line or (ended and blank)
        before = text
    if len(starts) < _FEWEST_PARAGRAPHS:
        return []
    ends = [*starts[1:], len(strip.tokens)]
    return [
        {"name": f"paragraph {number}", "start": start, "stop": stop}
        for number, (start, stop) in enumerate(zip(starts, ends, strict=True), 1)
    ]


def name_of(token: SourceToken) -> str:
    """Write a token as it stands in a sentence: without spaces around it, short."""
    name = label(token.text.strip(" "), part=token.part, parts=token.parts)
    return shortened(name or "␣", _LONGEST_NAME)


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
    whole = label(token.text, part=token.part, parts=token.parts)
    return whole, name_of(token), piece(token)


def _spaces(count: int) -> str:
    return f"␣×{count}" if count > _MOST_SPACES else "␣" * count


def _parted(text: str, token: SourceToken) -> str:
    return f"{text}[{token.part}/{token.parts}]" if token.parts > 1 else text


def _layers(report: LookReport) -> str:
    plain = replace(report, strip=replace(report.strip, asked=None, occurrences=1))
    return which_token(plain).partition(". ")[2]


def _notes(report: LookReport, by: Any) -> list[dict[str, str]]:
    chosen = notes_for(report.strip.by, report.heads, report.first_token)
    others = [note for note in report.notes if note not in chosen]
    notes = (*notes_for(by, report.heads, report.first_token), *others)
    return [{"subject": note.subject, "text": noted(note)} for note in notes]
