"""Feeding a store with the events of a CSV file, each at its own time."""

from __future__ import annotations

import logging
import math
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from flashbulb._draft import Draft
from flashbulb._files import bad_rows, table_rows
from flashbulb._time import to_seconds
from flashbulb.memory import Memory

__all__ = ["Columns", "ReplayError", "Summary", "parse_time", "read_events", "replay"]

DAY_SECONDS = 86400.0

_NUMBER = re.compile(r"[+-]?\d+(\.\d*)?([eE][+-]?\d+)?", re.ASCII)
# Epoch seconds of 1970, or a date without its hyphens?
_EIGHT_DIGITS = re.compile(r"((?:19|20)\d{2})(0[1-9]|1[0-2])([0-2]\d|3[01])", re.ASCII)
_ISO = re.compile(
    r"(?P<date>\d{4}-\d{2}-\d{2})"
    r"(?:[T ](?P<clock>\d{2}:\d{2}(?::\d{2})?)(?:[.,](?P<fraction>\d{1,9}))?"
    r"\s?(?P<zone>[Zz]|[+-]\d{2}(?::?\d{2})?)?)?",
    re.ASCII,
)


class ReplayError(ValueError):
    """The file is not what the columns say; nothing has been stored."""


class NoTimeZone(ValueError):
    """A date, or a time that could be anywhere."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Which columns of the file hold what; None: the file has none for it."""

    text: str = "text"
    time: str | None = None
    tags: str | None = None
    urgency: str | None = None
    key: str | None = None
    """Goes to the metadata, under the column's name."""
    metadata: tuple[str, ...] = ()
    """Go to the metadata as they are, under their names."""

    def names(self) -> list[str]:
        single = (self.text, self.time, self.tags, self.urgency, self.key)
        return [name for name in (*single, *self.metadata) if name is not None]


@dataclass(frozen=True, slots=True)
class Summary:
    """What a replay did."""

    events: int
    memories: int
    """New ones; the other events were repeats."""
    repeats: int
    flashbulbs: int
    pinned: int
    pins_refused: int
    """Flashbulbs by surprise that were stored unpinned, because the limit was reached."""
    seconds: float

    @property
    def events_per_second(self) -> float:
        return self.events / self.seconds if self.seconds > 0 else math.inf


def parse_time(value: str, *, assume_utc: bool = False) -> float:
    """Seconds since 1970-01-01 UTC of an ISO 8601 time, or of epoch seconds.

    Parameters
    ----------
    value : str
        ``2026-01-05T08:00:00+00:00``, ``2026-01-05 08:00Z``, ``2026-01-05`` or ``1767600000.5``.
    assume_utc : bool
        What a date or a time without a zone means: UTC, or an error.

    Raises
    ------
    ValueError
        For anything else; the message says what was expected.
    """
    given = value.strip()
    digits = _EIGHT_DIGITS.fullmatch(given)
    if digits is not None:
        raise ValueError(
            f"{given!r} could be a date or epoch seconds; write {'-'.join(digits.groups())}, "
            f"or {given}.0 for seconds"
        )
    if _NUMBER.fullmatch(given):
        return to_seconds(float(given), "the time")
    match = _ISO.fullmatch(given)
    if match is None:
        raise ValueError(
            f"a time must be ISO 8601 like 2026-01-05T08:00:00+00:00, or epoch seconds, "
            f"got {given[:40]!r}"
        )
    zone = match["zone"]
    if zone is None and not assume_utc:
        clock = match["clock"]
        example = given + "+00:00" if clock else f"{given}T00:00+00:00"
        raise NoTimeZone(f"{given!r} has no time zone; write {example} if it is UTC")
    offset = "+00:00" if zone is None or zone in "Zz" else zone
    if len(offset) == 3:
        offset += ":00"
    elif ":" not in offset:
        offset = f"{offset[:3]}:{offset[3:]}"
    try:
        moment = datetime.fromisoformat(f"{match['date']}T{match['clock'] or '00:00'}{offset}")
        seconds = to_seconds(moment, "the time")
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{given!r} is no time: {error}") from None
    return seconds + float(f"0.{match['fraction'] or 0}")


def read_events(
    path: str | Path,
    columns: Columns | None = None,
    *,
    delimiter: str | None = None,
    tags_separator: str = ";",
    assume_utc: bool = False,
    span_days: float = 90.0,
    until: float | None = None,
) -> list[dict[str, Any]]:
    """The events of a file as arguments of ``remember``, ordered by time, all found good.

    Parameters
    ----------
    path : str or path
        A CSV file in UTF-8 whose first line names the columns.
    columns : Columns, optional
        Which columns hold what.
    delimiter : str, optional
        Between columns; by default a tab for a ``.tsv`` file, else a comma.
    tags_separator : str
        Between the tags of one event.
    assume_utc : bool
        Read times without a zone as UTC; otherwise they are an error.
    span_days, until : float
        Without a time column: the events lie evenly over so many days, in the order of the file,
        the last one at `until` (epoch seconds; by default now).

    Raises
    ------
    ReplayError
        If a column is missing or a row is bad; the message names the lines.
    OSError
        If the file cannot be read.
    """
    columns = Columns() if columns is None else columns
    if not (math.isfinite(span_days) and span_days >= 0):
        raise ReplayError(f"the span must be 0 or more days, got {span_days!r}")
    if not tags_separator:
        raise ReplayError("the separator of tags must not be empty")
    end = to_seconds(time.time() if until is None else until, "until")
    if delimiter is None:
        delimiter = "\t" if Path(path).suffix.lower() == ".tsv" else ","
    events: list[dict[str, Any]] = []
    problems: list[str] = []
    for line, row in table_rows(Path(path), delimiter, columns.names(), error=ReplayError):
        event = _event(row, columns, tags_separator, assume_utc)
        if isinstance(event, str):
            problems.append(f"line {line}: {event}")
        else:
            events.append(event)
    if problems:
        raise ReplayError(bad_rows(path, problems, ", nothing was stored"))
    if columns.time is None:
        step = span_days * DAY_SECONDS / max(len(events) - 1, 1)
        for i, event in enumerate(events):
            event["now"] = to_seconds(end - step * (len(events) - 1 - i), "the start of the span")
    else:
        events.sort(key=lambda event: float(event["now"]))  # stable: equal times keep their order
    return events


def _event(
    row: dict[str, str] | str, columns: Columns, tags_separator: str, assume_utc: bool
) -> dict[str, Any] | str:
    """The arguments of ``remember``, or what is wrong with the row."""
    try:
        if isinstance(row, str):
            raise ValueError(row)
        event = _arguments(row, columns, tags_separator, assume_utc)
        Draft.of(event, 0.0)  # what remember would refuse is found before anything is stored
    except NoTimeZone as error:
        return f"{error}, or read all such times as UTC (--assume-utc)"
    except ValueError as error:
        return str(error)
    return event


def _arguments(
    row: dict[str, str], columns: Columns, tags_separator: str, assume_utc: bool
) -> dict[str, Any]:
    event: dict[str, Any] = {"text": row[columns.text]}
    if columns.tags is not None:
        tags = (tag.strip() for tag in row[columns.tags].split(tags_separator))
        event["tags"] = [tag for tag in tags if tag]
    if columns.urgency is not None and row[columns.urgency].strip():
        try:
            event["urgency"] = float(row[columns.urgency])
        except ValueError:
            raise ValueError(
                f"{columns.urgency} must be a number in [0, 1] or empty, "
                f"got {row[columns.urgency]!r:.40}"
            ) from None
    kept = columns.metadata if columns.key is None else (columns.key, *columns.metadata)
    if kept:
        event["metadata"] = {name: row[name] for name in kept}
    if columns.time is not None:
        event["now"] = parse_time(row[columns.time], assume_utc=assume_utc)
    return event


def replay(
    memory: Memory,
    events: Sequence[dict[str, Any]],
    *,
    batch: int = 256,
    progress: Callable[[int], None] | None = None,
) -> Summary:
    """Remember the events in order, `batch` of them in one transaction.

    If it is interrupted, the batches before are stored.

    Parameters
    ----------
    events : sequence of dict
        Arguments of ``remember``, as :func:`read_events` gives them.
    progress : callable, optional
        Called with the number of events of each batch once it is stored.
    """
    if batch < 1:
        raise ValueError(f"batch must be at least 1, got {batch}")
    before = memory.stats()
    start = time.perf_counter()
    with _quiet_pins():
        for first in range(0, len(events), batch):
            part = events[first : first + batch]
            memory.remember_many(part)
            if progress is not None:
                progress(len(part))
    seconds = time.perf_counter() - start
    after = memory.stats()
    memories = after["memories"] - before["memories"]
    return Summary(
        events=len(events),
        memories=memories,
        repeats=len(events) - memories,
        flashbulbs=after["flashbulbs"] - before["flashbulbs"],
        pinned=after["pinned"] - before["pinned"],
        pins_refused=after["surprise_pins_refused"] - before["surprise_pins_refused"],
        seconds=seconds,
    )


@contextmanager
def _quiet_pins() -> Iterator[None]:
    """The summary counts the pins that were refused; a warning for each would bury it."""
    log = logging.getLogger("flashbulb")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(level)
