"""The command ``clearhead``: one word for one act.

    clearhead look         where a token of a text drew from
    clearhead generate     what a model writes after a text
    clearhead quantities   the quantities inside attention

A command returns the text it made and ``run`` writes it once, so nothing is ever half-written;
only ``generate`` shows its text as it comes.
Whatever is wrong is one line on standard error: exit code 2 for bad input, 1 for a fault of ours.
"""

import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated

import typer

from clearhead import __version__
from clearhead.cli_generate import EXAMPLES as GENERATE_EXAMPLES
from clearhead.cli_generate import generate_command
from clearhead.cli_look import EXAMPLES as LOOK_EXAMPLES
from clearhead.cli_look import look_command
from clearhead.errors import ClearheadError
from clearhead.report.terminal import OutputError, Terminal, write_diagnosis, write_whole
from clearhead.report.visible import one_line

__all__ = ["main", "run"]

_BAD_INPUT, _OUR_FAULT, _INTERRUPTED = 2, 1, 130
_DEBUG = "CLEARHEAD_DEBUG"

_EXAMPLES = """\b
Examples:
  clearhead look "The capital of France is"
  clearhead look --help
  clearhead generate "The capital of France is"
  clearhead quantities
"""
_QUANTITIES_EXAMPLES = """\b
Examples:
  clearhead quantities
  clearhead quantities --json
"""

_app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Run the command line of this process and leave with its exit code."""
    code = run(sys.argv[1:])
    for stream in filter(None, (sys.stdout, sys.stderr)):
        with suppress(OSError, ValueError):
            stream.flush()
    if "torch" in sys.modules:
        # Everything is written; taking PyTorch apart would take another second and a half.
        os._exit(code)
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """Run one command line.

    Args:
        arguments: what stands behind ``clearhead``.

    Returns:
        The exit code: 0; 2 for bad input or a closed output; 130 for an interrupt; 1 for a fault of
        clearhead's own. The reason stands on one line on standard error.
    """
    try:
        return _run(arguments)
    except (KeyboardInterrupt, typer.Abort):
        return _INTERRUPTED
    except ClearheadError as error:
        return _refused(str(error), _BAD_INPUT)
    except OSError as error:  # a file, a folder or a disk that is not as it should be
        return _refused(f"{error.strerror or error}: {error.filename or 'output'}", _BAD_INPUT)
    except Exception as error:  # noqa: BLE001  a person gets one line, whatever went wrong
        return _failed(error)


def _run(arguments: Sequence[str]) -> int:
    _quiet_libraries()
    try:
        made: object = _app(list(arguments), prog_name="clearhead", standalone_mode=False)
    except SystemExit as left:  # typer leaves so, with 1, when its help meets a closed pipe
        raise OutputError("the output was closed before everything was written") from left
    if isinstance(made, int):
        return made
    if made is not None:
        write_whole(str(made), sys.stdout)
    return 0


def _refused(message: str, code: int) -> int:
    write_diagnosis(f"clearhead: error: {one_line(message)}\n")
    return code


def _failed(error: Exception) -> int:
    usage = getattr(error, "format_message", None)  # click's errors, or typer's own copy of them
    if usage is not None:
        context = getattr(error, "ctx", None)
        path = context.command_path if context is not None else "clearhead"
        return _refused(f"{usage().rstrip('.')}; see {path} --help", _BAD_INPUT)
    if os.environ.get(_DEBUG) == "1":
        write_diagnosis("".join(traceback.format_exception(error)))
        return _OUR_FAULT
    told = f"unexpected {type(error).__name__}: {error}; set {_DEBUG}=1 to see where"
    return _refused(told, _OUR_FAULT)


# --------------------------------------------------------------------------------------- options


_Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def _say_version(wanted: bool) -> None:  # noqa: FBT001  typer hands over the option's value so
    if wanted:
        typer.echo(f"clearhead {__version__}")
        raise typer.Exit


_Version = Annotated[
    bool,
    typer.Option(
        "--version", is_eager=True, callback=_say_version, help="Print the version and leave."
    ),
]


# -------------------------------------------------------------------------------------- commands


@_app.callback(invoke_without_command=True, epilog=_EXAMPLES)
def _clearhead(context: typer.Context, *, _version: _Version = False) -> None:
    """See what happens inside attention, on a model of your own or a real one."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


_app.command("look", short_help="Show where one token of a text drew from.", epilog=LOOK_EXAMPLES)(
    look_command
)
_app.command("generate", short_help="Continue a text.", epilog=GENERATE_EXAMPLES)(generate_command)


@_app.command(
    "quantities", short_help="Print the quantities inside attention.", epilog=_QUANTITIES_EXAMPLES
)
def _quantities(*, as_json: _Json = False) -> str:
    """Print the quantities inside attention: name, shape, meaning, cost."""
    from clearhead.report.glossary import glossary_json, render_glossary

    return f"{glossary_json()}\n" if as_json else render_glossary(Terminal.of(sys.stdout))


def _quiet_libraries() -> None:
    """Keep the one line on standard error the only one: other libraries warn and chat there."""
    if os.environ.get(_DEBUG) == "1":
        return
    warnings.simplefilter("ignore")
    for name in ("TRANSFORMERS_VERBOSITY", "HF_HUB_VERBOSITY"):
        os.environ.setdefault(name, "error")
