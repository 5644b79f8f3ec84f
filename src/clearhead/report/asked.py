"""What is asked of a report, judged alike from Python and from the command line."""

from clearhead.errors import InputError, gathered
from clearhead.report.parts import MEASURES

__all__ = ["asked_faults", "check_asked"]


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
