"""The command ``clearhead look``: where one token of a text, or an answer, drew from."""

import json
import re
import shlex
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from clearhead.errors import InputError, gathered
from clearhead.report.asked import asked_faults
from clearhead.report.documents.asking import ANSWER_TOKENS, Question, question_faults
from clearhead.report.given import given_layers, given_passages, given_text, given_token
from clearhead.report.parts import MEASURES, Measure
from clearhead.report.terminal import Terminal, status, write_diagnosis
from clearhead.report.visible import visible

if TYPE_CHECKING:
    from clearhead.report.look import Look
    from clearhead.report.page import PageValues

__all__ = ["EXAMPLES", "look_command"]

EXAMPLES = """\b
Examples:
  clearhead look "The capital of France is"
  clearhead look "The cat sat because it was tired." --token it
  clearhead look --file poem.txt --by attention --layers 0-5,9
  clearhead look "The capital of France is" --html look.html
  clearhead look --passage a.txt --passage b.txt --question "Who sings?"
  echo "The capital of France is" | clearhead look -
  clearhead look "The capital of France is" --json > look.json
"""

_ARGUMENTS = re.compile(r"\b(passages|question|answer|max_new_tokens)(?:=| (?=must))")
_OPTIONS = {
    "passages": "--passage",
    "question": "--question",
    "answer": "--answer",
    "max_new_tokens": "--max-new-tokens",
}

_Text = Annotated[
    str | None,
    typer.Argument(metavar="TEXT", help="The text; - reads standard input.", show_default=False),
]
_File = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Read the text from a UTF-8 file.", show_default=False),
]
_Passage = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FILE",
        help="A UTF-8 file that the question is about; may be given again.",
        show_default=False,
    ),
]
_QuestionText = Annotated[
    str | None,
    typer.Option(
        metavar="TEXT",
        help="Ask the model, and look at where its answer drew from.",
        show_default=False,
    ),
]
_Answer = Annotated[
    str | None,
    typer.Option(
        metavar="TEXT", help="Look at this answer; the model writes none.", show_default=False
    ),
]
_MaxNewTokens = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help=f"Most tokens of the model's answer.  [default: {ANSWER_TOKENS}]",
        show_default=False,
    ),
]
_Model = Annotated[
    str, typer.Option(metavar="NAME", help="An alias, a folder, a hub name or a GGUF file.")
]
_Token = Annotated[
    str | None,
    typer.Option(
        metavar="WORD|INDEX",
        help="The token to look from: a position counted from 0 (-1: the last) or a word (its last"
        " occurrence). A number behind a space is a word.  [default: the last; of an answer, its"
        " first]",
        show_default=False,
    ),
]
_By = Annotated[str, typer.Option(metavar="|".join(MEASURES), help="What the shares follow.")]
_Layers = Annotated[
    str | None,
    typer.Option(
        metavar="LAYERS",
        help="Layers to look at, such as 0-5,9.  [default: all]",
        show_default=False,
    ),
]
_Top = Annotated[int, typer.Option(metavar="N", help="How many of the strongest links to list.")]
_Html = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Write a page, too: every token, head and step, to be opened in a browser.",
        show_default=False,
    ),
]
_Json = Annotated[
    bool, typer.Option("--json", help="Print JSON: every number shown, and every token.")
]
_Engine = Annotated[
    str | None,
    typer.Option(
        metavar="ENGINE", help="What runs the model: clearhead or transformers.", show_default=False
    ),
]


def look_command(
    *,
    text: _Text = None,
    file: _File = None,
    passage: _Passage = None,
    question: _QuestionText = None,
    answer: _Answer = None,
    max_new_tokens: _MaxNewTokens = None,
    model: _Model = "smollm2",
    token: _Token = None,
    by: _By = "contribution",
    layers: _Layers = None,
    top: _Top = 8,
    html: _Html = None,
    as_json: _Json = False,
    engine: _Engine = None,
) -> str:
    """Show where one token of a text drew from, and through which heads; or where an answer did.

    Memory grows with the text, never with its square.
    """
    chosen, some = None if token is None else given_token(token), given_layers(layers)
    asked = _asked(text, file, Question(None, passage, question, answer, max_new_tokens))
    _check([*asked_faults(by, top), *question_faults(asked)])
    if html is not None:
        from clearhead.report.page.writing import check_page_path

        check_page_path(html)
    # Here and not above: these bring torch, which a wrong option or --help should not wait for.
    from clearhead import from_pretrained, look
    from clearhead.report.text import render_text

    with status(f"loading {model} …"):
        loaded = from_pretrained(model, engine=engine)
    with status("reading the text …"):
        seen = look(
            loaded,
            asked.text,
            passages=asked.passages,
            question=asked.question,
            answer=asked.answer,
            max_new_tokens=asked.max_new_tokens,
            token=chosen,
            by=cast("Measure", by),
            layers=some,
            top=top,
        )
    page = None if html is None else _page(seen, html)
    if as_json:
        return _json(seen, page)
    return render_text(seen.report, Terminal.of(sys.stdout))


def _asked(text: str | None, file: str | None, given: Question) -> Question:
    """What was asked for, its files read; what is missing is judged later with all else."""
    files = cast("Sequence[str] | None", given.passages)
    passages = None if not files else given_passages(files)
    needs_text = given.question is None and passages is None
    read = given_text(text, file) if needs_text or text is not None or file is not None else None
    return Question(read, passages, given.question, given.answer, given.max_new_tokens)


def _check(faults: Sequence[str]) -> None:
    """Refuse what no model could answer, in the spelling of the options."""
    if faults:
        spelled = [
            _ARGUMENTS.sub(
                lambda found: _OPTIONS[found[1]] + (" " if found[0].endswith(" ") else ""), fault
            )
            for fault in faults
        ]
        raise InputError(gathered("cannot look", spelled))


def _page(seen: "Look", path: str) -> "PageValues":
    with status("writing the page …"):
        values = seen.save(path, command=_command())
    write_diagnosis(f"clearhead: the page is in {visible(path)}\n")
    return values


def _command() -> str:
    """The command line that was given, as a shell would take it again."""
    return shlex.join(["clearhead", *sys.argv[1:]])


def _json(seen: "Look", page: "PageValues | None") -> str:
    """The report as one line of JSON; with a page, every number that stands in it."""
    if page is None:
        return f"{seen.to_json()}\n"
    whole: dict[str, Any] = {**json.loads(seen.to_json()), "page": page.listed()}
    whole["page"].pop("look")  # it is the report itself
    return f"{json.dumps(whole, allow_nan=False)}\n"
