"""The page of families: counts, what they were checked against, and a table for each task."""

from collections.abc import Sequence

import torch
import transformers
from transformers.models.auto import modeling_auto

from families.verdict import KINDS, TOLERANCE, Verdict

__all__ = ["document"]

_TITLES = {
    "causal": "Models that continue a text",
    "masked": "Models that fill in a text",
    "seq2seq": "Models that read one text and write another",
}
_SHOWN = 240
_ABOUT = """\
# Which families of transformers are traced

`python -m families --write` wrote this page, with {versions}. Each family of transformers that
models text was made tiny, with random weights, and traced on one text of 12 tokens; windows and
chunks are 5, so that the text crosses them.

- *Traced*: the logits after the last token, and every row of A and C of every traced layer, differ
  from those of the same model's own eager attention by at most {tolerance} in float32, save what
  the table says was not compared. What holds besides, in bfloat16 and with padding, is a law:
  `tests/laws/test_families.py`.
- *Refused*: `ch.trace` said why it cannot, and gave nothing.
- *Not made*: no tiny model could be made here; nothing is known of the family."""


def document(found: Sequence[Verdict]) -> str:
    """The page, from the verdict of every family.

    Args:
        found: the verdicts, in the order of the tables.

    Returns:
        Markdown.
    """
    versions = f"transformers {transformers.__version__}, torch {torch.__version__}"
    parts = [_ABOUT.format(versions=versions, tolerance=f"{TOLERANCE:g}"), _counts(found)]
    for task, title in _TITLES.items():
        of_task = [made for made in found if made.task == task]
        if of_task:
            parts += [f"## {title}", _table(of_task)]
    parts += ["## Models that classify images", _pictures()]
    return "\n\n".join(parts) + "\n"


def _pictures() -> str:
    names = modeling_auto.MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES
    return f"Not text models, and not tried: {', '.join(names)}."


def _counts(found: Sequence[Verdict]) -> str:
    kinds = [kind for kind in KINDS if kind != "WRONG" or any(v.kind == kind for v in found)]
    rows = [f"| | {' | '.join(kinds)} |", f"|---|{'---|' * len(kinds)}"]
    for task in _TITLES:
        numbers = [sum(v.kind == kind and v.task == task for v in found) for kind in kinds]
        rows.append(f"| {task} | {' | '.join(map(str, numbers))} |")
    return "\n".join(rows)


def _table(found: Sequence[Verdict]) -> str:
    rows = ["| family | class | what came of it | largest difference |", "|---|---|---|---|"]
    return "\n".join([*rows, *map(_row, found)])


def _row(made: Verdict) -> str:
    figure = "" if made.error is None else f"{made.error:.0e}"
    return f"| {made.family} | `{made.class_name}` | {_outcome(made)} | {figure} |"


def _outcome(made: Verdict) -> str:
    why = made.why if len(made.why) <= _SHOWN else f"{made.why[:_SHOWN].rsplit(' ', 1)[0]} …"
    why = why.replace("|", "\\|").replace("<", "\\<").replace("_", "\\_").replace("*", "\\*")
    if made.kind == "traced":
        return f"traced: {made.layers} layers" + (f"; {why}" if why else "")
    if made.kind == "not made":
        return f"no tiny model could be made: {why}"
    if made.kind == "WRONG":
        return f"**WRONG**: {made.layers} layers" + (f"; {why}" if why else "")
    return f"refused: {why}"
