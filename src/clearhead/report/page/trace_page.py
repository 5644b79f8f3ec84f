"""A trace written as a page: the way from a trace and a report to the file."""

import os
from collections.abc import Collection
from typing import TYPE_CHECKING

from clearhead.report.build import build_report
from clearhead.report.page.html import page_html
from clearhead.report.page.values import PageValues, page_values
from clearhead.report.page.writing import check_page_path, write_page
from clearhead.report.parts import LookReport, Measure

if TYPE_CHECKING:  # these bring torch, which the command line imports only when it has to
    from clearhead.tracing.survey import Survey
    from clearhead.tracing.traced import Trace

__all__ = ["report_trace", "write_report"]


def write_report(
    trace: "Trace",
    report: LookReport,
    path: str | os.PathLike[str],
    *,
    surveyed: "Survey | None" = None,
    command: str = "",
) -> PageValues:
    """Write a report as a page.

    Args:
        trace: the traced text.
        report: what is shown of it first.
        path: where to.
        surveyed: a survey of the rows that may be chosen, where there is one already.
        command: what would make the page again.

    Returns:
        The values that stand in it.

    Raises:
        InputError: the page cannot be written there.
    """
    check_page_path(path)
    values = page_values(trace, report, surveyed=surveyed, command=command)
    write_page(page_html(report, values.to_json()), path)
    return values


def report_trace(
    trace: "Trace",
    path: str | os.PathLike[str],
    *,
    token: int | str | None = None,
    by: Measure = "contribution",
    layers: Collection[int] | None = None,
    top: int = 8,
) -> None:
    """Write the page of a trace: what ``Trace.report`` does.

    Args:
        trace: the traced text.
        path: where to.
        token: the token that is shown first; None is the last whose row was kept.
        by: what the shares follow.
        layers: the layers to sum over; None is all that were traced.
        top: how many of the strongest links to list.

    Raises:
        InputError, TokenError, NotKeptError: as ``Trace.report``.
    """
    check_page_path(path)
    chosen = int(trace.queries.max()) if token is None else token
    some = None if layers is None else sorted(set(layers))
    write_report(trace, build_report(trace, token=chosen, by=by, layers=some, top=top), path)
