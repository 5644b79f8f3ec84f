"""The command ``clearhead generate``: continue a text, shown as it comes."""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clearhead.errors import CheckpointError, InputError, gathered
from clearhead.report.given import given_text
from clearhead.report.terminal import (
    OutputError,
    Terminal,
    plain_for,
    rendered,
    status,
    write_diagnosis,
    write_whole,
)
from clearhead.transformer.generation.settings import Sampling, length_faults, stop_faults

if TYPE_CHECKING:
    from clearhead.transformer.generation.generate import Stream
    from clearhead.transformer.generation.generated import Generated

__all__ = ["EXAMPLES", "generate_command"]

EXAMPLES = """\b
Examples:
  clearhead generate "The capital of France is"
  clearhead generate --chat "Who wrote Faust?" --max-new-tokens 60
  clearhead generate --file story.txt --temperature 0.8 --top-p 0.95 --seed 7
  clearhead generate "Apples, pears," --stop "\\n" --stop .
  echo "Once upon a time" | clearhead generate - --json
"""

_INTERRUPTED, _CLOSED = 130, 2
_OPTIONS = re.compile(r"\b(max_new_tokens|temperature|top_k|top_p|seed|stop(?= must))\b")
_ESCAPES = {r"\n": "\n", r"\t": "\t", r"\\": "\\"}

_Text = Annotated[
    str | None,
    typer.Argument(
        metavar="TEXT", help="The text to continue; - reads standard input.", show_default=False
    ),
]
_File = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Read the prompt from a UTF-8 file.", show_default=False),
]
_Model = Annotated[
    str, typer.Option(metavar="NAME", help="An alias, a folder, a hub name or a GGUF file.")
]
_MaxNewTokens = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Most new tokens.  [default: 256, or what the model still reads]",
        show_default=False,
    ),
]
_Temperature = Annotated[
    float,
    typer.Option(metavar="T", help="0 takes the most probable token; above 0, one is drawn."),
]
_TopK = Annotated[
    int | None,
    typer.Option(metavar="K", help="Draw from the K most probable tokens.", show_default=False),
]
_TopP = Annotated[
    float | None,
    typer.Option(
        metavar="P",
        help="Draw from the fewest tokens that together have probability P.",
        show_default=False,
    ),
]
_Seed = Annotated[
    int | None,
    typer.Option(metavar="SEED", help="Gives the same text again.", show_default=False),
]
_Stop = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TEXT",
        help="End before this text; may be given again. \\n is a new line, \\t a tab.",
        show_default=False,
    ),
]
_Chat = Annotated[
    bool, typer.Option("--chat", help="The prompt is a message to a model that chats.")
]
_Json = Annotated[
    bool, typer.Option("--json", help="Print JSON at the end: text, ids, why it ended, times.")
]


def generate_command(
    *,
    prompt: _Text = None,
    file: _File = None,
    model: _Model = "smollm2",
    max_new_tokens: _MaxNewTokens = None,
    temperature: _Temperature = 0.0,
    top_k: _TopK = None,
    top_p: _TopP = None,
    seed: _Seed = None,
    stop: _Stop = None,
    chat: _Chat = False,
    as_json: _Json = False,
) -> int:
    """Continue a text, token by token, and show it as it comes.

    Ctrl-C ends it; what was written stays. Memory grows with the text, never with its square.
    """
    sampling = Sampling(temperature=temperature, top_k=top_k, top_p=top_p, seed=seed)
    stops = [_unescaped(text) for text in stop or ()]
    _check([*length_faults(max_new_tokens), *sampling.faults(), *stop_faults(stops)])
    read = given_text(prompt, file)
    given: Any = [{"role": "user", "content": read}] if chat else read
    # Here and not above: these bring torch, which a wrong option or --help should not wait for.
    from clearhead import from_pretrained, stream

    with status(f"loading {model} …"):
        _check_fits(model, given, max_new_tokens)
        loaded = from_pretrained(model, engine="clearhead")
    pieces = stream(loaded, given, max_new_tokens=max_new_tokens, **asdict(sampling), stop=stops)
    code = _shown(pieces, wanted=not as_json)
    if as_json:
        told = {"model": loaded.clearhead_name, "weights": loaded.clearhead_origin, "prompt": read}
        write_whole(_json(told, pieces.generated, sampling), sys.stdout)
    elif code == 0 and max_new_tokens is None:
        _say_bound(pieces.generated)
    return code


def _check(faults: Sequence[str]) -> None:
    """Refuse values that mean nothing, in the spelling of the options."""
    if faults:
        spelled = [_OPTIONS.sub(lambda found: _option(found[0]), fault) for fault in faults]
        raise InputError(gathered("cannot generate", spelled))


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _unescaped(text: str) -> str:
    """A stop string with its new lines and tabs: few shells let them be typed."""
    return re.sub(r"\\[nt\\]", lambda found: _ESCAPES[found[0]], text)


def _check_fits(model: str, given: Any, asked: int | None) -> None:
    """Refuse what the model's files alone say cannot be, before its weights are loaded."""
    from clearhead.tokens.tokenizer import TextTokenizer
    from clearhead.transformer.checkpoint import resolve
    from clearhead.transformer.families.spelling import described
    from clearhead.transformer.generation.before_loading import check_fits
    from clearhead.transformer.model_folder import read_folder

    folder = read_folder(resolve(model).folder)
    try:
        config = described(folder.config).config
        words = TextTokenizer.from_folder(folder.path)
    except CheckpointError:
        return  # loading it says what is wrong
    ids = words.encode(given) if isinstance(given, str) else words.chat(given)
    if config.kind == "decoder":
        check_fits(folder, config, ids, asked=asked)


def _shown(pieces: "Stream", *, wanted: bool) -> int:
    """Write a text as it comes, and give the exit code."""
    try:
        for piece in pieces:
            if wanted:
                write_whole(plain_for(piece, sys.stdout), sys.stdout)
    except KeyboardInterrupt:
        code = _INTERRUPTED
    except OutputError as error:
        # whoever reads has read enough, as `head` does
        if isinstance(error.__cause__, BrokenPipeError):
            return _CLOSED
        raise
    else:
        code = 0
    if wanted:
        write_whole("\n", sys.stdout)
    return code


def _say_bound(made: "Generated") -> None:
    """Say that a text ends only because of a bound that nobody asked for, in one dim line."""
    from rich.text import Text

    count = len(made.token_ids)
    why = {
        "max_new_tokens": "the default; --max-new-tokens N changes it",
        "context": "the model reads no more; shorten the prompt",
    }.get(made.stopped_by)
    if why is not None:
        line = Text(f"clearhead: cut at {count} new tokens: {why}", style="dim")
        write_diagnosis(rendered(line, Terminal.of(sys.stderr)))


def _json(told: Mapping[str, object], made: "Generated", sampling: Sampling) -> str:
    """Everything as one line of ASCII: nothing raw of a text's may reach a terminal."""
    asked = {"temperature": sampling.temperature, "top_k": sampling.top_k, "top_p": sampling.top_p}
    whole = {
        "format": "clearhead-generate/1",
        **told,
        **asked,
        **asdict(made),
        "tokens_per_second": made.tokens_per_second,
    }
    return f"{json.dumps(whole, allow_nan=False)}\n"
