"""Drawing in a terminal: curves, bars, and text that cannot harm the terminal it is shown in."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

__all__ = ["Curve", "console", "curve_lines", "printable", "shortened", "stacked_bar", "underlined"]

# Characters that would turn the reading order around without being seen themselves.
_BIDIRECTIONAL = frozenset("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")

# Bits of the dots of a braille character, by row from the top and by column.
_BRAILLE = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Leave it to the caller; rich would end the process with code 1."""
        raise BrokenPipeError


_NO_COLUMNS = ("COLUMNS", "0")


def console(*, stderr: bool = False) -> Console:
    """A console that takes no text for markup. Honours NO_COLOR, COLUMNS and non-terminals."""
    # No terminal has no columns: some programs say so of one that they do not know.
    environ = {name: value for name, value in os.environ.items() if (name, value) != _NO_COLUMNS}
    return _Console(stderr=stderr, markup=False, emoji=False, highlight=False, _environ=environ)


def printable(value: str) -> str:
    """One line of a stored text, in which no character can steer the terminal."""
    return "".join(map(_shown, " ".join(value.split())))


def _shown(character: str) -> str:
    if unicodedata.category(character) != "Cc" and character not in _BIDIRECTIONAL:
        return character
    return f"\\x{ord(character):02x}" if ord(character) < 256 else f"\\u{ord(character):04x}"


def shortened(value: str, length: int) -> str:
    """At most `length` characters of a printable text, cut at a word where one ends near."""
    line = printable(value)
    if len(line) <= length:
        return line
    cut = line[: length - 3]
    word = cut.rsplit(" ", 1)[0]
    return (word if len(word) > length * 2 // 3 else cut).rstrip(" ,;:") + "..."


def underlined(
    value: str, spans: Iterable[tuple[int, int]], width: int, *, ascii_only: bool
) -> list[str]:
    """A text in lines of at most `width` cells, and under each what is in `spans` marked.

    A line without a mark has none below it. Spans are places in `value`.
    """
    marked = {place for start, end in spans for place in range(start, end)}
    cells: list[tuple[str, bool]] = []
    for word in re.finditer(r"\S+", value):
        if cells:
            cells.append((" ", {word.start() - 1, word.start()} <= marked))
        cells += [(_shown(value[i]), i in marked) for i in range(*word.span())]
    mark = "^" if ascii_only else "‾"
    lines = []
    while cells:
        line, cells = _cut(cells, width)
        lines.append("".join(text for text, _ in line))
        marks = "".join((mark if under else " ") * cell_len(text) for text, under in line).rstrip()
        if marks:
            lines.append(marks)
    return lines


def _cut(
    cells: list[tuple[str, bool]], width: int
) -> tuple[list[tuple[str, bool]], list[tuple[str, bool]]]:
    """What fits into a line, and the rest; cut at a blank if there is one."""
    used = fitting = 0
    for text, _ in cells:
        used += cell_len(text)
        if used > width and fitting:
            break
        fitting += 1
    else:
        return cells, []
    blanks = [i for i in range(1, fitting + 1) if cells[i][0] == " "]
    if not blanks:
        return cells[:fitting], cells[fitting:]
    return cells[: blanks[-1]], cells[blanks[-1] + 1 :]


def stacked_bar(values: Sequence[float], scale: float, width: int, *, ascii_only: bool) -> Text:
    """Up to four terms of a sum side by side; told apart by shade and by colour.

    Parameters
    ----------
    values : sequence of float
        The terms; a negative one has no length.
    scale : float
        The sum that fills the width.
    """
    shades = "#=+-" if ascii_only else "█▓▒░"
    styles = ("cyan", "blue", "magenta", "yellow")
    bar = Text()
    end, total = 0, 0.0
    for value, shade, style in zip(values, shades, styles, strict=False):
        total += max(value, 0.0)
        reach = min(round(width * total / scale), width) if scale > 0 else 0
        bar.append(shade * (reach - end), style)
        end = reach
    return bar


@dataclass(frozen=True, slots=True)
class Curve:
    """A quantity in [0, 1] over days.

    Attributes
    ----------
    days, values : sequence of float
        The points, days ascending.
    floors : sequence of float
        The floor at each point; 0 is not drawn.
    marks : sequence of (day, character)
        What happened on which day.
    """

    days: Sequence[float]
    values: Sequence[float]
    floors: Sequence[float]
    marks: Sequence[tuple[float, str]] = ()


def curve_lines(
    curve: Curve, *, span: float, width: int, height: int, ascii_only: bool = False
) -> list[str]:
    """The curve with its axes, as lines of exactly `width` characters or fewer.

    The vertical axis goes from 0 to 1, the horizontal one from day 0 to `span`. Below the curve
    stands a line with its marks, if it has any, then the axis and the days.
    """
    if width < 24 or height < 3 or height % 2 == 0:
        raise ValueError(
            f"a curve needs 24 columns or more and an odd number of rows, got {width} x {height}"
        )
    margin = 5
    inner = width - margin
    rows = (_plain_rows if ascii_only else _braille_rows)(curve, span, inner, height)
    labels = {0: "1.0", height // 2: "0.5", height - 1: "0.0"}
    side, corner, line = ("|", "+", "-") if ascii_only else ("┤", "└", "─")
    lines = [f"{labels.get(i, ''):>3} {side}{row}" for i, row in enumerate(rows)]
    if curve.marks:
        marks = [" "] * inner
        for day, mark in curve.marks:
            marks[_column(day, span, inner)] = mark
        lines.append(" " * 4 + side + "".join(marks))
    lines.append(" " * 4 + corner + line * inner)
    days = [" "] * inner
    for share in (0.0, 1 / 3, 2 / 3, 1.0):
        label = f"{span * share:.0f}"
        start = min(_column(span * share, span, inner), inner - len(label))
        days[start : start + len(label)] = label
    lines.append(" day " + "".join(days))
    return [line.rstrip() for line in lines]


def _column(day: float, span: float, width: int) -> int:
    return min(max(round(day / span * (width - 1)), 0), width - 1)


def _samples(
    curve: Curve, span: float, columns: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Value and floor in the middle of each column; NaN where the curve is not yet there."""
    at = np.linspace(0.0, span, columns)
    value = np.interp(at, curve.days, curve.values, left=np.nan, right=np.nan)
    # A floor changes in steps: what holds at a column is what the last point before it says.
    last = np.searchsorted(curve.days, at, side="right") - 1
    floor = np.where(last >= 0, np.asarray(curve.floors, dtype=np.float64)[last], np.nan)
    return value, np.where(np.isnan(value) | (floor <= 0), np.nan, floor)


def _dots(values: Iterable[float], rows: int) -> list[range]:
    """For each column the rows (from the top) that a connected line passes."""
    result: list[range] = []
    before: int | None = None
    for value in values:
        if np.isnan(value):
            result.append(range(0))
            before = None
            continue
        row = round((1 - min(max(value, 0.0), 1.0)) * (rows - 1))
        if before is None or before == row:
            result.append(range(row, row + 1))
        elif before < row:
            result.append(range(before + 1, row + 1))
        else:
            result.append(range(row, before))
        before = row
    return result


def _braille_rows(curve: Curve, span: float, width: int, height: int) -> list[str]:
    value, floor = _samples(curve, span, width * 2)
    cells = np.zeros((height, width), dtype=np.int64)
    for x, dots in enumerate(_dots(value, height * 4)):
        for y in dots:
            cells[y // 4, x // 2] |= _BRAILLE[y % 4][x % 2]
    for x, dots in enumerate(_dots(floor, height * 4)):
        if x % 4 == 0:  # a dotted line
            for y in dots:
                cells[y // 4, x // 2] |= _BRAILLE[y % 4][x % 2]
    return ["".join(chr(0x2800 + int(cell)) if cell else " " for cell in row) for row in cells]


def _plain_rows(curve: Curve, span: float, width: int, height: int) -> list[str]:
    value, floor = _samples(curve, span, width)
    cells = [[" "] * width for _ in range(height)]
    for samples, character in ((floor, "."), (value, "*")):
        for x, dots in enumerate(_dots(samples, height)):
            for y in dots:
                cells[y][x] = character
    return ["".join(row) for row in cells]
