"""Write the report page: one HTML document that holds all it needs and asks nothing of a network.

Everything a person reads at first stands in the document as text, so that it can be read and
printed without a script. One module then takes over and shows other tokens, heads and measures from
the values in the document. A strict policy lets nothing run but that module, nothing style but that
sheet, and nothing be fetched at all.
"""

import base64
import hashlib
import json
import re
from functools import lru_cache
from html import escape
from pathlib import Path
from typing import Any

from clearhead.report.page.sections import sections, title
from clearhead.report.page.shown import shown
from clearhead.report.parts import LookReport

__all__ = ["page_html"]

# In the order in which they stand in the one module.
_SCRIPTS = (
    "figures.js",
    "elements.js",
    "arrays.js",
    "reading.js",
    "folding.js",
    "sentences.js",
    "strip.js",
    "keys.js",
    "tables.js",
    "scale.js",
    "heads.js",
    "map.js",
    "arithmetic.js",
    "pictures.js",
    "steps.js",
    "documents.js",
    "page.js",
)
_STYLES = ("page.css", "pictures.css")

# What could end the block it stands in, or a line; JSON holds these within strings only.
_RISKY = re.compile(r"[<>&\x7f-\uffff\U00010000-\U0010ffff]")


def page_html(report: LookReport, values_json: str) -> str:
    """Write the whole page.

    Args:
        report: the tree of parts: what the page shows before its module runs.
        values_json: the values that the module reads, "clearhead-page/1".

    Returns:
        One HTML document without an address in it.
    """
    values: dict[str, Any] = json.loads(values_json)
    style, script = _asset(_STYLES), _asset(_SCRIPTS)
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_policy(style, script)}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            '<meta name="generator" content="clearhead">',
            f"<title>{escape(title(report))}</title>",
            f"<style>{style}</style>",
            "</head>",
            "<body>",
            *sections(report, values),
            _block("values", values_json),
            _block("shown", json.dumps(shown(report, values))),
            f'<script type="module">{script}</script>',
            "</body>",
            "</html>",
            "",
        ]
    )


def _policy(style: str, script: str) -> str:
    return (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}';"
        " base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


@lru_cache(maxsize=4)
def _asset(names: tuple[str, ...]) -> str:
    folder = Path(__file__).parent
    return "\n" + "\n".join((folder / name).read_text("utf-8") for name in names)


def _block(name: str, values: str) -> str:
    return f'<script type="application/json" id="{name}">{_RISKY.sub(_coded, values)}</script>'


def _coded(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4))
