"""What is asked of a report, judged alike from Python and from the command line."""

from clearhead.errors import InputError, gathered
from clearhead.report.parts import MEASURES

__all__ = ["TWO_TEXTS", "asked_faults", "check_asked"]

#: What is said of an encoder-decoder, whose source and target no report shows yet.
TWO_TEXTS = (
    "an encoder-decoder cannot be looked at yet: ask clearhead.trace(model, source, target=…) for "
    "its .cross.sources(token), the source tokens that a token of the target drew from"
)


def asked_faults(by: str, top: int) -> list[str]:
    """Name what is wrong with what the shares are to follow and how many links to list."""
    faults: list[str] = []
    if by not in MEASURES:
        faults.append(f"by: expected {' or '.join(MEASURES)}; got {by!r}")
    if top < 1:
        faults.append(f"top: expected at least 1; got {top}")
    return faults


def check_asked(by: str, top: int) -> None:
    """Refuse what no model could answer, before one is loaded.

    Args:
        by: what the shares are to follow.
        top: how many links to list.

    Raises:
        InputError: one of them cannot be served; all faults in one message.
    """
    faults = asked_faults(by, top)
    if faults:
        raise InputError(gathered("cannot look", faults))
