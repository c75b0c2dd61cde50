"""Rows of the quality table: what was measured, on what, and what is to be reached."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["Row", "at_least", "at_most", "progress", "reported", "show"]


@dataclass(frozen=True)
class Row:
    measure: str
    data: str
    reach: str
    """What is to be reached, in words; empty: only reported."""
    measured: str
    ok: bool | None
    """Whether it is reached; None: only reported."""


def at_least(measure: str, data: str, value: float, limit: float, beside: str = "") -> Row:
    return Row(measure, data, f">= {limit:.3g}", _with(f"{value:.3f}", beside), value >= limit)


def at_most(measure: str, data: str, value: float, limit: float, beside: str = "") -> Row:
    return Row(measure, data, f"<= {limit:.3g}", _with(f"{value:.3f}", beside), value <= limit)


def reported(measure: str, data: str, measured: str) -> Row:
    return Row(measure, data, "", measured, None)


def _with(value: str, beside: str) -> str:
    return f"{value} ({beside})" if beside else value


def progress(text: str) -> None:
    """Says on stderr what is being done."""
    print(f"  ... {text}", file=sys.stderr, flush=True)


def show(rows: Iterable[Row]) -> None:
    """Print the table."""
    cells = [("measure", "data", "reach", "measured", "ok")]
    words = {True: "yes", False: "NO", None: ""}
    cells += [(row.measure, row.data, row.reach, row.measured, words[row.ok]) for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for number, line in enumerate(cells):
        print(" | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)))
        if number == 0:
            print("-|-".join("-" * width for width in widths))
