"""Trace every family of transformers: ``python -m families [names…] [--json] [--write]``."""

import argparse
import json
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

from families.apart import verdict_apart
from families.table import document
from families.tiny import FAMILIES
from families.verdict import KINDS, Verdict

__all__ = ["main"]

#: Processes that run beside each other.
AT_ONCE = 2
PAGE = Path(__file__).parents[1] / "docs" / "families.md"


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge the families that are named, or all; 1 if one of them is wrong."""
    parser = argparse.ArgumentParser(prog="python -m families", description=__doc__)
    parser.add_argument("names", nargs="*", help="model types, tasks (causal, …), or task/type")
    parser.add_argument("--json", action="store_true", help="print one JSON object a family")
    parser.add_argument("--write", action="store_true", help=f"rewrite {PAGE.name} (all families)")
    chosen = parser.parse_args(arguments)
    if chosen.write and chosen.names:
        parser.error("--write writes of all families: give no names")
    wanted = [pair for pair in _all() if not chosen.names or _is_named(pair, chosen.names)]
    if not wanted:
        parser.error(f"no such family: {', '.join(chosen.names)}")
    found: list[Verdict] = []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for number, made in enumerate(pool.map(lambda pair: verdict_apart(*pair), wanted), 1):
            found.append(made)
            _say(json.dumps(asdict(made)) if chosen.json else _line(made, number, len(wanted)))
    if not chosen.json:
        _say(", ".join(f"{sum(v.kind == kind for v in found)} {kind}" for kind in KINDS))
    if chosen.write:
        PAGE.write_text(document(found), "utf-8")
    return int(any(made.kind == "WRONG" for made in found))


def _all() -> list[tuple[str, str]]:
    return [(family, task) for task, families in FAMILIES.items() for family in families]


def _is_named(pair: tuple[str, str], names: Sequence[str]) -> bool:
    family, task = pair
    return bool({family, task, f"{task}/{family}"} & set(names))


def _line(made: Verdict, number: int, count: int) -> str:
    figure = "" if made.error is None else f", error {made.error:.1e}"
    layers = f", {made.layers} layers" if made.layers else ""
    why = f": {made.why}" if made.why else ""
    mark = "  <<<<<<<<" if made.kind == "WRONG" else ""
    return f"{number}/{count} {made.task}/{made.family}: {made.kind}{layers}{figure}{why}{mark}"


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
