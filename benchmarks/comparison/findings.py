"""What a row of the comparison found, and how it is shown."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from .memories import Quality
from .timing import Spread, ratios

__all__ = ["Finding", "Line", "Reach", "lines_of", "print_finding", "write_json"]


@dataclass(frozen=True)
class Line:
    """One contender. ``times`` is how many times longer it took than Flashbulb."""

    name: str
    seconds: Spread
    times: Spread | None = None
    quality: Quality | None = None
    note: str = ""


@dataclass(frozen=True)
class Reach:
    """What is to be shown, and what was."""

    what: str
    target: float
    measured: Spread
    at_most: bool = False

    @property
    def reached(self) -> bool:
        if self.at_most:
            return self.measured.median <= self.target
        return self.measured.median >= self.target


@dataclass
class Finding:
    """A table, the targets it is held against, and whether the answers agreed."""

    row: str
    title: str
    lines: list[Line] = field(default_factory=list)
    reaches: list[Reach] = field(default_factory=list)
    agreed: bool | None = None
    notes: list[str] = field(default_factory=list)


def lines_of(
    taken: dict[str, NDArray[np.float64]],
    ours: str,
    notes: dict[str, str] | None = None,
    qualities: dict[str, Quality] | None = None,
) -> list[Line]:
    """A line for each contender of the rounds ``taken``."""
    return [
        Line(
            name,
            Spread.of(seconds[~np.isnan(seconds)]),
            None if name == ours else ratios(seconds, taken[ours]),
            (qualities or {}).get(name),
            (notes or {}).get(name, ""),
        )
        for name, seconds in taken.items()
    ]


def print_finding(finding: Finding, console: Console) -> None:
    recalls = any(line.quality for line in finding.lines)
    table = Table(title=f"{finding.row}: {finding.title}", title_justify="left")
    table.add_column("contender", no_wrap=True)
    table.add_column("median", justify="right")
    table.add_column("quartiles", justify="right")
    table.add_column("times ours", justify="right")
    if recalls:
        table.add_column("recall@10", justify="right")
        table.add_column("of flashbulbs", justify="right")
    table.add_column("")
    for line in finding.lines:
        cells = [
            line.name,
            _time(line.seconds.median),
            f"{_time(line.seconds.low)} – {_time(line.seconds.high)}",
            "" if line.times is None else f"{line.times.median:.2f}",
        ]
        if recalls:
            cells += ["", ""]
            if line.quality is not None:
                cells[-2] = f"{line.quality.recall:.4f}"
                vivid = line.quality.flashbulbs
                cells[-1] = "—" if math.isnan(vivid) else f"{vivid:.4f}"
        table.add_row(*cells, line.note)
    console.print(table)
    for reach in finding.reaches:
        sign = "≤" if reach.at_most else "≥"
        spread = reach.measured
        console.print(
            f"  {'✔' if reach.reached else '✘'} {reach.what}: {spread.median:.2f} "
            f"({spread.low:.2f} – {spread.high:.2f}), to reach {sign} {reach.target:g}"
        )
    if finding.agreed is not None:
        console.print(f"  {'✔ the answers agreed' if finding.agreed else '✘ ANSWERS DIFFER'}")
    for note in finding.notes:
        console.print(f"  {note}")
    console.print()


def write_json(findings: list[Finding], about: dict[str, Any], path: Path) -> None:
    """Everything that was printed, as numbers; seconds are seconds, NaN is null."""
    report = {**about, "findings": [asdict(finding) for finding in findings]}
    for place, finding in enumerate(findings):
        for number, reach in enumerate(finding.reaches):
            report["findings"][place]["reaches"][number]["reached"] = reach.reached
    path.write_text(json.dumps(_without_nan(report), indent=1) + "\n")


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nan(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_without_nan(each) for each in value]
    return None if isinstance(value, float) and math.isnan(value) else value


def _time(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            value = seconds / size
            return f"{value:.3g} {unit}" if value < 100 else f"{value:.0f} {unit}"
    return f"{seconds * 1e9:.0f} ns"
