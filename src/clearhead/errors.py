"""Every error clearhead raises on purpose, as one tree.

    ClearheadError
    ├── InputError (also a ValueError)      an argument is wrong: what was expected, what was got
    │   ├── ShapeError                      shapes or dtypes of one call do not fit together
    │   ├── OutOfRangeError (an IndexError)  an index lies outside its axis
    │   ├── MaskError                       a mask cannot answer for these positions or sizes
    │   └── TokenError                      text, ids or a token that is empty, missing or too long
    ├── UnsupportedError                    a named implementation cannot serve this call, and why
    ├── NotKeptError (also a LookupError)   a trace was not asked to keep this; says what keeps it
    ├── TraceError                          a model, or some of its layers, cannot be traced
    └── CheckpointError                     weights cannot be used: missing, unexpected, damaged
        ├── UnknownModelError               no such model; lists what can be given
        └── DownloadError                   a download failed or did not match its recorded sha256

A message names the argument, what was expected, what was got and what to do. All mismatches of one
call stand in one message, so that one run is enough to mend them.
"""

from collections.abc import Sequence

__all__ = [
    "CheckpointError",
    "ClearheadError",
    "DownloadError",
    "InputError",
    "MaskError",
    "NotKeptError",
    "OutOfRangeError",
    "ShapeError",
    "TokenError",
    "TraceError",
    "UnknownModelError",
    "UnsupportedError",
    "gathered",
]


class ClearheadError(Exception):
    """Base of every error raised on purpose by clearhead."""


class InputError(ClearheadError, ValueError):
    """An argument is wrong."""


class ShapeError(InputError):
    """Shapes or dtypes of one call do not fit together."""


class OutOfRangeError(InputError, IndexError):
    """An index lies outside its axis."""


class MaskError(InputError):
    """A mask cannot answer for these positions or sizes."""


class TokenError(InputError):
    """Text, ids or a named token is empty, missing or too long."""


class UnsupportedError(ClearheadError):
    """A named implementation cannot serve this call."""


class NotKeptError(ClearheadError, LookupError):
    """A quantity was not kept; the message names the argument that keeps it."""


class TraceError(ClearheadError):
    """A model, or some of its layers, cannot be traced."""


class CheckpointError(ClearheadError):
    """Weights cannot be used as they are."""


class UnknownModelError(CheckpointError):
    """No such model."""


class DownloadError(CheckpointError):
    """A download failed, or what arrived is not what was recorded."""


def gathered(summary: str, faults: Sequence[str]) -> str:
    """Write one message out of all faults of one call.

    Args:
        summary: what was being done, without a full stop.
        faults: one line a fault; at least one.

    Returns:
        ``summary: fault`` for a single fault, else the summary and one indented line a fault.
    """
    if len(faults) == 1:
        return f"{summary}: {faults[0]}"
    return "\n".join([f"{summary}, {len(faults)} faults:", *(f"  - {fault}" for fault in faults)])
