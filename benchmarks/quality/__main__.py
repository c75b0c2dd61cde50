"""All quality tables: one command, one table, seeds fixed.

    python benchmarks/quality                        all of it
    python benchmarks/quality --only retrieval use   some of it
    python benchmarks/quality --list                 their names

Each module of this folder that has ``rows() -> Iterable[Row]`` takes part. Data are read from the
folder that FLASHBULB_DATA names. The exit status is 1 if something is not reached.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from table import Row, show

FOLDER = Path(__file__).resolve().parent


def modules() -> dict[str, Callable[[], Iterable[Row]]]:
    """The modules that have rows, by name."""
    found = {}
    for path in sorted(FOLDER.glob("[!_]*.py")):
        rows = getattr(importlib.import_module(path.stem), "rows", None)
        if rows is not None:
            found[path.stem] = rows
    return found


def main() -> int:
    available = modules()
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=available, metavar="NAME")
    parser.add_argument("--list", action="store_true", help="print the names and end")
    arguments = parser.parse_args()
    if arguments.list:
        print("\n".join(available))
        return 0
    logging.getLogger("flashbulb").setLevel(logging.ERROR)
    start = time.monotonic()
    table: list[Row] = []
    for name in arguments.only or available:
        print(f"{name} (after {time.monotonic() - start:.0f} s)", file=sys.stderr, flush=True)
        table.extend(available[name]())
    show(table)
    missed = sum(row.ok is False for row in table)
    judged = sum(row.ok is not None for row in table)
    print(f"\n{judged - missed} of {judged} reached, in {time.monotonic() - start:.0f} s")
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
