"""A user's own labels: a table of texts that a model is fitted to."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from flashbulb._check import check_text
from flashbulb._files import bad_rows, table_rows

from .training import LABELS

__all__ = ["Labelled", "read_labels"]

_TIES = ("group", "pair")


@dataclass(frozen=True, slots=True)
class Labelled:
    """Labelled texts; those of one group are never parted between training and test."""

    texts: list[str]
    labels: list[str]
    groups: list[str]


def read_labels(path: str | Path) -> Labelled:
    """Read a table with columns ``text`` and ``label``, perhaps ``group`` or ``pair``.

    Parameters
    ----------
    path : str or path
        UTF-8; tab-separated, without quotes, if its first line has a tab, else CSV. A text is of
        its group, or else its pair, or else alone; one that is repeated counts once.

    Raises
    ------
    ValueError
        If a column is missing or a row is bad; the message names the lines.
    OSError
        If the file cannot be read.
    """
    path = Path(path)
    with path.open("rb") as file:
        tabs = b"\t" in file.readline()
    texts: dict[str, tuple[int, str, str]] = {}
    problems: list[str] = []
    rows = table_rows(
        path, "\t" if tabs else ",", ("text", "label"), optional=_TIES, quoted=not tabs
    )
    for line, row in rows:
        problem = row if isinstance(row, str) else _enter(texts, line, row)
        if problem is not None:
            problems.append(f"line {line}: {problem}")
    if problems:
        raise ValueError(bad_rows(path, problems))
    return Labelled(
        list(texts),
        [label for _, label, _ in texts.values()],
        [group or f"line {line}" for line, _, group in texts.values()],
    )


def _enter(texts: dict[str, tuple[int, str, str]], line: int, row: dict[str, str]) -> str | None:
    """Note line, label and group of the row's text, or say what is wrong with it."""
    text, label = row["text"].strip(), row["label"].strip()
    try:
        check_text(text, "text")
    except ValueError as error:
        return str(error)
    if label not in LABELS:
        return f"label must be one of {', '.join(LABELS)}, got {label!r:.40}"
    tie = next((name for name in _TIES if row.get(name, "").strip()), None)
    group = "" if tie is None else f"{tie} {row[tie].strip()}"
    before, known, _ = texts.setdefault(text, (line, label, group))
    return None if known == label else f"{label}, but the same text is {known} in line {before}"
