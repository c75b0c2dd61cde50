"""Arousal on labelled texts: a table per kind, and the time it takes.

    python benchmarks/arousal.py FILE.tsv [FILE.tsv ...] [--errors]

A file has the tab-separated columns text, label (critical, important, mundane) and kind.
Informational: no gate hangs on it.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections import defaultdict
from pathlib import Path

from flashbulb.arousal import ArousalDetector, ArousalResult

CRITICAL, IMPORTANT = 0.8, 0.5


def level(score: float) -> str:
    """The label that a score stands for."""
    return "critical" if score >= CRITICAL else "important" if score >= IMPORTANT else "mundane"


def read(path: Path) -> list[dict[str, str]]:
    """Rows of a labelled file; quotation marks are part of the texts."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def precision_recall_f1(hits: int, false_alarms: int, misses: int) -> tuple[float, float, float]:
    """Of critical against the rest; 1 where nothing was to be found and nothing was."""
    precision = hits / (hits + false_alarms) if hits + false_alarms else 1.0
    recall = hits / (hits + misses) if hits + misses else 1.0
    both = 2 * hits + false_alarms + misses
    return precision, recall, 2 * hits / both if both else 1.0


def report(path: Path, detector: ArousalDetector, errors: bool) -> None:
    """Print the table of one file."""
    rows = read(path)
    results: list[ArousalResult] = [detector.detect(row["text"]) for row in rows]
    kinds: dict[str, list[tuple[str, float]]] = defaultdict(list)
    for row, result in zip(rows, results, strict=True):
        kinds[row["kind"]].append((row["label"], result.score))
    print(f"\n{path}\n{'kind':20} {'texts':>5} {'right':>5} {'missed':>6} {'false':>5} {'mean':>5}")
    totals = [0, 0, 0]
    for kind, pairs in sorted(kinds.items()):
        right = sum(level(score) == label for label, score in pairs)
        hits = sum(label == "critical" and score >= CRITICAL for label, score in pairs)
        missed = sum(label == "critical" and score < CRITICAL for label, score in pairs)
        false = sum(label != "critical" and score >= CRITICAL for label, score in pairs)
        mean = sum(score for _, score in pairs) / len(pairs)
        print(f"{kind:20} {len(pairs):5} {right:5} {missed:6} {false:5} {mean:5.2f}")
        totals = [totals[0] + hits, totals[1] + false, totals[2] + missed]
    precision, recall, f1 = precision_recall_f1(*totals)
    mundane = [
        result.score for row, result in zip(rows, results, strict=True) if row["label"] == "mundane"
    ]
    print(
        f"critical vs rest: precision {precision:.3f}, recall {recall:.3f}, F1 {f1:.3f};"
        f" mundane texts from {CRITICAL}: {sum(s >= CRITICAL for s in mundane)},"
        f" from {IMPORTANT}: {sum(s >= IMPORTANT for s in mundane)} of {len(mundane)}"
    )
    if errors:
        for row, result in zip(rows, results, strict=True):
            if level(result.score) != row["label"]:
                spoke = [(e.rule, e.matched, e.scopes) for e in result.evidence[:3]]
                print(
                    f"  {row['label']:9} {result.score:.2f} {row['kind']:16} {row['text']} {spoke}"
                )
    best = min(_seconds(detector, rows) for _ in range(5))
    print(f"{best / len(rows) * 1e6:.0f} µs a text, {len(rows) / best:,.0f} texts a second")


def _seconds(detector: ArousalDetector, rows: list[dict[str, str]]) -> float:
    start = time.perf_counter()
    for row in rows:
        detector.detect(row["text"])
    return time.perf_counter() - start


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--errors", action="store_true", help="list the texts that come out wrong")
    parser.add_argument("--rules", type=Path, help="another rule file")
    arguments = parser.parse_args()
    detector = ArousalDetector(arguments.rules)
    for path in arguments.files:
        report(path, detector, arguments.errors)


if __name__ == "__main__":
    main()
