"""Show the table of quantities: the vocabulary of the code, the documents and the report."""

import json
from collections.abc import Iterator
from dataclasses import asdict

from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from clearhead.quantities import QUANTITIES, Quantity
from clearhead.report.terminal import Terminal, rendered

__all__ = ["glossary_json", "render_glossary"]

_WIDE = 60


def render_glossary(terminal: Terminal) -> str:
    """Write the table of quantities for a terminal.

    Args:
        terminal: its width, colours and encoding.

    Returns:
        One entry a quantity, in the order of computation.
    """
    heading = Text("The quantities inside attention, in the order they are computed", "bold")
    counts = Text("n counts queries, m counts keys; sizes are for one layer of one sequence", "dim")
    entries = (
        part for entry in QUANTITIES for part in ("", *_entry(entry, wide=terminal.width >= _WIDE))
    )
    return rendered(Group(heading, counts, *entries), terminal)


def glossary_json() -> str:
    """Write the table of quantities as one line of JSON."""
    quantities = [asdict(entry) for entry in QUANTITIES]
    return json.dumps({"format": "clearhead-quantities/1", "quantities": quantities})


def _entry(entry: Quantity, *, wide: bool) -> Iterator[Text | Padding]:
    name = Text.assemble((f"{entry.symbol or ' '}  ", "bold"), (entry.name, "bold"))
    yield Text.assemble(name, f"  {entry.shape}")
    yield Padding(Text(entry.meaning), (0, 0, 0, 3))
    details = [("made by", entry.producer), ("stored, takes", entry.cost)]
    details += [("also called", entry.also_called)] if entry.also_called else []
    facts = Table.grid(padding=(0, 2, 0, 0))
    for what, told in details:
        if wide:
            facts.add_row(Text(what, "dim"), Text(told))
        else:
            facts.add_row(Text.assemble((f"{what}: ", "dim"), told))
    yield Padding(facts, (0, 0, 0, 3))
