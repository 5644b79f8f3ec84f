"""The report as a page: one file with every number it shows, and the module that shows them.

values.py    Trace, LookReport → PageValues: all that travels in the file
arrays.py    numbers packed for a browser
steps.py     the heads that are shown step by step
html.py      LookReport, values → the document; page.css and the .js files stand in it
writing.py   to a file, whole or not at all
"""

from clearhead.report.page.html import page_html
from clearhead.report.page.trace_page import report_trace, write_report
from clearhead.report.page.values import PageValues, page_values
from clearhead.report.page.writing import check_page_path, write_page

__all__ = [
    "PageValues",
    "check_page_path",
    "page_html",
    "page_values",
    "report_trace",
    "write_page",
    "write_report",
]
