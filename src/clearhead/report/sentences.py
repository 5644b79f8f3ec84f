"""The sentences and table cells of a report, the same for every renderer: plain text, made visible.

Where a terminal is narrow a name is cut to ``most`` cells; without it, it stands whole.
"""

from collections.abc import Iterator

from clearhead.report.figures import counted, length, percent, percent_at_most, size
from clearhead.report.parts import HeadLine, LookReport, NextTokens, Note, Stretch, Strip
from clearhead.report.visible import label, shortened, visible

__all__ = [
    "ITSELF",
    "LINK_HEADINGS",
    "STRONGEST_LINKS",
    "TEMPLATE",
    "drew_from",
    "facts",
    "folded",
    "link_cells",
    "model_and_weights",
    "next_cells",
    "noted",
    "source_cells",
    "what_comes_next",
    "what_it_took",
    "which_token",
]

STRONGEST_LINKS = "Through which heads: the strongest links"
LINK_HEADINGS = ("layer", "head", "source", "position", "weight", "contribution", "share")

#: What no passage holds: the rest of the prompt, and what the answer read of itself.
TEMPLATE, ITSELF = "between them (the template)", "the answer itself, so far"

_LONGEST_NAME = 24  # cells of a token within a sentence


# ------------------------------------------------------------------------------------- sentences


def model_and_weights(head: HeadLine) -> str:
    """Name the model and its weights, the model once where the weights' name begins with it."""
    name, origin = visible(head.model), visible(head.weights_origin)
    if not origin:
        return name
    return origin if origin.startswith(name) else f"{name}: {origin}"


def what_it_took(head: HeadLine) -> str:
    """Say how much was looked at, how long it took, and what is held beside what would be."""
    return (
        f"{counted(head.tokens, 'token')}, {counted(len(head.layers), 'layer')} ×"
        f" {counted(head.heads, 'head')}, {head.seconds:.2f} s;"
        f" the trace holds {size(head.trace_bytes)} (grows with the text),"
        f" the full matrices would take {size(head.dense_bytes)} (grows with its square)"
    )


def facts(report: LookReport) -> Iterator[str]:
    """Say the strongest source, what the first token takes and brings, and what comes next."""
    strip, first = report.strip, report.first_token
    if strip.strongest:
        source = strip.tokens[strip.strongest[0]]
        itself = source.position == strip.target
        name = "itself" if itself else f"{_name(strip, source.position)} (token {source.position})"
        measured = "incoming contribution" if strip.by == "contribution" else "attention"
        drew = f"⟦{_name(strip, strip.target)}⟧ drew most from {name}"
        yield f"{drew}: {percent(source.share)} of its {measured}"
    brings = first.contribution_share
    comes = "" if brings is None else f"; from there comes {percent(brings)} of the contribution"
    rests = f"On the first token, {_in_a_sentence(label(first.text.strip(' ')))}, rests"
    yield f"{rests} {percent(first.attention)} of its attention{comes}"
    if report.next_tokens.likeliest:
        best = report.next_tokens.likeliest[0]
        after = f"after token {report.next_tokens.after}"
        yield f"Likeliest next token, {after}: {label(best.text)}, {percent(best.probability)}"


def drew_from(strip: Strip) -> str:
    """Head the strip: whose sources it shows, by what measure."""
    return f"Where ⟦{_name(strip, strip.target)}⟧ drew from, by {strip.by}"


def which_token(report: LookReport) -> str:
    """Say which token is meant, where else its word stands, and what was summed."""
    strip = report.strip
    place = f"Token {strip.target} of {len(strip.tokens)}, counted from 0"
    if strip.asked is not None and strip.asked.strip() != report.target.text.strip():
        place = f"{place}, where {_in_a_sentence(label(strip.asked))} ends"
    if strip.occurrences > 1:
        found = ", ".join(map(str, strip.found_at[:-1]))
        others = f"; also at {found}" if len(strip.found_at) > 1 else ""
        place = f"{place}, the last of {strip.occurrences} such{others}"
    return f"{place}. {_layers(report.head.layers)}, all heads."


def folded(stretch: Stretch, strip: Strip) -> str:
    """Say what a folded stretch holds; one that came later than the chosen token brings nothing."""
    count = stretch.stop - stretch.start
    if strip.causal and stretch.start > strip.target:
        return f"… {count} later tokens …"
    summed = f"{percent(stretch.share)} together, none above {percent_at_most(stretch.largest)}"
    return f"… {count} tokens, {summed} …"


def what_comes_next(next_tokens: NextTokens) -> str:
    """Head the likeliest next tokens."""
    return f"What comes next, after token {next_tokens.after}"


def noted(note: Note) -> str:
    """Write a note with the paper it rests on."""
    return f"{note.text} ({note.source})" if note.source else note.text


# ----------------------------------------------------------------------------------------- cells


def source_cells(strip: Strip, *, most: int | None = None) -> Iterator[tuple[str, str, str]]:
    """Write the strongest sources: share, token (the chosen one framed), position."""
    for position in strip.strongest:
        share = percent(strip.tokens[position].share)
        yield share, _framed(strip, position, most), str(position)


def link_cells(report: LookReport, *, most: int | None = None) -> Iterator[tuple[str, ...]]:
    """Write the strongest links, a cell for each of the headings."""
    for row in report.heads.rows:
        yield (
            str(row.layer),
            str(row.head),
            _framed(report.strip, row.source, most),
            str(row.source),
            f"{row.weight:.3f}",
            length(row.contribution),
            percent(row.share),
        )


def next_cells(next_tokens: NextTokens, *, most: int | None = None) -> Iterator[tuple[str, str]]:
    """Write the likeliest next tokens: probability, token."""
    for likely in next_tokens.likeliest:
        yield percent(likely.probability), _cut(label(likely.text), most)


# ---------------------------------------------------------------------------------- small pieces


def _layers(layers: tuple[int, ...]) -> str:
    runs: list[list[int]] = []
    for layer in layers:
        if runs and layer == runs[-1][-1] + 1:
            runs[-1].append(layer)
        else:
            runs.append([layer])
    named = ", ".join(f"{run[0]}–{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
    return f"Layers {named}" if len(layers) > 1 else f"Layer {named}"


def _name(strip: Strip, position: int) -> str:
    token = strip.tokens[position]
    return _in_a_sentence(label(token.text.strip(" "), part=token.part, parts=token.parts))


def _framed(strip: Strip, position: int, most: int | None) -> str:
    token = strip.tokens[position]
    shown = label(token.text, part=token.part, parts=token.parts)
    return _cut(f"⟦{shown}⟧" if position == strip.target else shown, most)


def _in_a_sentence(shown: str) -> str:
    return shortened(shown or "␣", _LONGEST_NAME)


def _cut(shown: str, most: int | None) -> str:
    return shown if most is None else shortened(shown, most)
