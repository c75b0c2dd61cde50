"""Finding when in a text: spans that are written like a time, read by dateutil.

A value is ISO 8601 text, as precise as the text is: ``2026``, ``2026-05``, ``2026-W20``,
``2026-05-14``, ``2026-05-14T06``, ``2026-05-14T06:15``, ``2026-05-14T06:15:33``, or an interval of
hours, ``2026-05-13T18/2026-05-14T06``, for a part of a day. It has an offset only where the text
names a zone, or where it was counted back from the moment of writing ("20 minutes ago"): else it
is the time of the clock on the wall.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone, tzinfo
from itertools import islice
from typing import NamedTuple

from dateutil.parser import parse
from dateutil.relativedelta import relativedelta

from .time_words import TimeWords, time_words

__all__ = ["find_time"]

_NEAR_DAYS = 120
"""A date without a year is the nearest one, if it is no further away."""

_NEAR_CHARACTERS = 200
"""So far a sentence is read on either side of a time."""

_MOST = 20
"""So many times of a kind are looked at: a list of dates is no event."""


class Found(NamedTuple):
    """A time, as ISO text, and where it stands."""

    value: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class _Clock:
    hour: int
    minute: int | None = None
    second: int | None = None
    zone: tzinfo | None = None
    half: bool = False
    """Whether the half of the day was said: am or pm."""

    def on(self, day: date) -> str:
        text = f"{day.isoformat()}T{self.hour:02}"
        for part in (self.minute, self.second):
            text += "" if part is None else f":{part:02}"
        return text + datetime(2000, 1, 1, tzinfo=self.zone).isoformat()[19:]  # the offset

    def moment(self, day: date, zone: tzinfo) -> datetime:
        return datetime(
            day.year,
            day.month,
            day.day,
            self.hour,
            self.minute or 0,
            self.second or 0,
            tzinfo=self.zone or zone,
        )


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a day."""

    day: date
    hour: int
    hours: int

    def __post_init__(self) -> None:
        self.text()  # OverflowError at the ends of the calendar

    def text(self) -> str:
        start = datetime(self.day.year, self.day.month, self.day.day, self.hour)
        end = start + timedelta(hours=self.hours)
        return f"{start.isoformat(timespec='hours')}/{end.isoformat(timespec='hours')}"

    def at(self, clock: _Clock) -> str:
        """A time of the clock in this part: six in the evening is 18."""
        if clock.half or clock.hour > 12:
            night = self.hours > 6 and clock.hour < 12
            return clock.on(self.day + timedelta(days=1) if night else self.day)
        hour, day = clock.hour % 12, self.day
        if self.hour >= 12:
            late = self.hours <= 6 or hour >= 6  # "at 2 last night" is after midnight
            hour, day = (hour + 12, day) if late else (hour, day + timedelta(days=1))
        return _Clock(hour, clock.minute, clock.second, clock.zone).on(day)


@dataclass(frozen=True, slots=True)
class _Piece:
    """What one pattern found: ISO text, a day, a part of a day, or a time of the clock."""

    start: int
    end: int
    what: str | date | _Part | _Clock
    alone: bool = True
    """False: it is a time only beside a day."""
    past: bool = False
    """Whether the sentence must tell of the past, if it stands alone."""
    number: bool = False
    """A clock without minutes, half or zone: "six", as in "six this morning"."""


def find_time(text: str, created: datetime) -> Found | None:
    """The first time that the text names; `created` is when it was written, with its zone."""
    words = time_words()
    pieces = _without_overlaps(_pieces(text, created, words))
    while pieces:
        piece = pieces.pop(0)
        found = _joined(text, piece, pieces[0], words) if pieces else None
        if found is not None:
            del pieces[0]
        else:
            found = _alone(text, piece, created, words)
        if found is not None and not _is_something_else(text, found, words):
            return found
    return None


def _joined(text: str, first: _Piece, second: _Piece, words: TimeWords) -> Found | None:
    """A day and a time of the clock that stand together."""
    clock, day = (first, second) if isinstance(first.what, _Clock) else (second, first)
    if not isinstance(clock.what, _Clock) or not words.gap.fullmatch(
        text[first.end : second.start]
    ):
        return None
    if isinstance(day.what, _Part):
        return Found(day.what.at(clock.what), first.start, second.end)
    if isinstance(day.what, date) and not clock.number:
        return Found(clock.what.on(day.what), first.start, second.end)
    return None


def _alone(text: str, piece: _Piece, created: datetime, words: TimeWords) -> Found | None:
    what = piece.what
    if not piece.alone:
        return None
    if piece.past:
        sentence = _sentence(text, piece.start, piece.end)
        if words.recurring.search(sentence) or not words.past.search(sentence):
            return None
    if isinstance(what, _Clock):
        today = created.date()
        if what.moment(today, created.tzinfo or timezone.utc) > created:
            return None  # later today, or yesterday: who knows
        value = what.on(today)
    elif isinstance(what, _Part):
        value = what.text()
    else:
        value = what if isinstance(what, str) else what.isoformat()
    return Found(value, piece.start, piece.end)


def _sentence(text: str, start: int, end: int) -> str:
    """The sentence around a place, or what of it is near."""
    before = text[max(start - _NEAR_CHARACTERS, 0) : start]
    after = text[end : end + _NEAR_CHARACTERS]
    first = max((match.end() for match in re.finditer(r"[.!?]\s|\n", before)), default=0)
    last = re.search(r"[.!?](?:\s|$)|\n", after)
    return before[first:] + text[start:end] + after[: last.start() if last else None]


def _is_something_else(text: str, found: Found, words: TimeWords) -> bool:
    """Whether what stands around a time says that nothing happened then."""
    if words.before.search(text[max(found.start - 40, 0) : found.start]):
        return True
    if words.rather.match(text, found.end) and words.denied.search(
        _sentence(text, found.start, found.start).partition(text[found.start : found.end])[0]
    ):
        return True  # "not yesterday but on Monday"
    around = text[max(found.start - 1, 0) : found.start], text[found.end : found.end + 1]
    if all(mark and mark in "'\"“”`‘’" for mark in around):
        return True  # a value that is quoted
    return bool(words.no_event.search(_sentence(text, found.start, found.end)))


def _without_overlaps(pieces: Iterator[_Piece]) -> list[_Piece]:
    """In the order of the text; of two that overlap, the one that was found first."""
    kept: list[_Piece] = []
    for piece in pieces:
        if all(piece.end <= other.start or piece.start >= other.end for other in kept):
            kept.append(piece)
    return sorted(kept, key=lambda piece: piece.start)


def _pieces(text: str, created: datetime, words: TimeWords) -> Iterator[_Piece]:
    """What is written like a time: the longest and surest patterns first."""
    for name, pattern in words.patterns.items():
        for match in islice(pattern.finditer(text), _MOST):
            try:
                what = _READERS[name](match, created, words)
            except (ValueError, OverflowError):
                continue  # the 31st of February
            if what is not None and not _is_name(text, match, name):
                start, end = match.span("span")
                groups = match.groupdict()
                yield _Piece(
                    start,
                    end,
                    what,
                    alone=not isinstance(what, _Clock) or groups.get("preposition") is not None,
                    past=isinstance(what, _Clock)
                    or match["span"].lower() in words.loose
                    or (name == "weekday" and groups.get("preposition") is None),
                    number=name == "number",
                )


def _is_name(text: str, match: re.Match[str], kind: str) -> bool:
    """Whether a word of time has a capital within a sentence: "USA Today"."""
    word = match["span"]
    if kind not in ("day", "part") or not word[0].isupper() or word.isupper():
        return False
    return re.search(r"\w\s$", text[: match.start("span")][-2:]) is not None


# Readers: from a match and the moment of writing to a time, or None if it is none after all.


def _moment(match: re.Match[str], created: datetime, words: TimeWords) -> str | date:
    """A date, with the time of the clock if there is one."""
    groups = match.groupdict()
    text = f"{groups['date']} {groups.get('year', '')}".rstrip()
    day = parse(
        re.sub(r"(?<=\d)\.(?=\s)|[年月日]", "-" if "年" in text else " ", text).rstrip("-"),
        parserinfo=words.info,
        dayfirst="." in text or "/" in text,
        yearfirst=bool(re.match(r"\d{4}", text)),
        default=datetime(created.year, 1, 1),
    ).date()
    if groups.get("clock") is None:
        return day
    return _read_clock(groups["clock"], created, words).on(day)


def _read_clock(text: str, created: datetime, words: TimeWords) -> _Clock:
    plain = re.sub(r"(?<=[aApP])\.", "", text).replace(",", ".")
    read = parse(
        plain,
        parserinfo=words.info,
        tzinfos=words.zones,
        default=datetime(created.year, created.month, created.day),
    )
    figures = re.match(r"\d+(?::\d+(?P<second>:\d+)?)?", text)
    minute = read.minute if ":" in text else None
    second = read.second if figures is not None and figures["second"] else None
    half = bool(re.search(r"[ap]\.?m", text, re.IGNORECASE))
    return _Clock(read.hour, minute, second, read.tzinfo, half)


def _clock(match: re.Match[str], created: datetime, words: TimeWords) -> _Clock:
    return _read_clock(match["clock"], created, words)


def _named_clock(match: re.Match[str], created: datetime, words: TimeWords) -> _Clock:
    return _Clock(12 if match["span"].lower() == "noon" else 0, half=True)


def _number(match: re.Match[str], created: datetime, words: TimeWords) -> _Clock | None:
    hour = words.number(match["span"])
    return _Clock(hour) if hour <= 24 else None


def _near(match: re.Match[str], created: datetime, words: TimeWords) -> date | None:
    """A day and a month: in the year that puts it closest to the moment of writing."""
    today = created.date()
    day = parse(
        re.sub(r"(?<=\d)\.", "", match["date"]),
        parserinfo=words.info,
        default=datetime(2000, 1, 1),
    )
    years = (today.year - 1, today.year, today.year + 1)
    days = [date(year, day.month, day.day) for year in years if day.day < 29 or day.month != 2]
    if not days:
        return None
    nearest = min(days, key=lambda each: abs(each - today))
    return nearest if abs(nearest - today) <= timedelta(days=_NEAR_DAYS) else None


def _glog(match: re.Match[str], created: datetime, words: TimeWords) -> str:
    day = date(created.year, int(match["month"]), int(match["day"]))
    return _read_clock(match["clock"], created, words).on(day)


def _month(match: re.Match[str], created: datetime, words: TimeWords) -> str:
    first = parse(match["span"], parserinfo=words.info, default=datetime(2000, 1, 1))
    return _unit(first, "month")


def _slashed(match: re.Match[str], created: datetime, words: TimeWords) -> date | None:
    """Only where the order of day and month cannot be mistaken."""
    first, second, year = (int(part) for part in match["span"].split("/"))
    if first <= 12 and second <= 12 and first != second:
        return None
    return date(year, min(first, second), max(first, second))


def _day(match: re.Match[str], created: datetime, words: TimeWords) -> date:
    return created.date() + timedelta(days=words.days[match["span"].lower()])


def _part(match: re.Match[str], created: datetime, words: TimeWords) -> _Part:
    day, hour, hours = words.parts[match["span"].lower()]
    return _Part(created.date() + timedelta(days=day), hour, hours)


def _weekday(match: re.Match[str], created: datetime, words: TimeWords) -> date | _Part | None:
    """The last one before today."""
    number = words.weekday(match["weekday"])
    back = (created.weekday() - number) % 7
    if back == 0:
        return None  # today, or a week ago
    day = created.date() - timedelta(days=back)
    if match["part"]:
        return _Part(day, *words.weekday_parts[match["part"]])
    return day if match["preposition"] else None


def _ago(match: re.Match[str], created: datetime, words: TimeWords) -> str | date | _Part:
    count, unit = words.number(match["count"]), match["unit"]
    if match["half"]:
        count, unit = 30, "minute"
    if unit == "night":
        return _Part(created.date() - timedelta(days=count), 18, 12)
    then = _before(created, unit, count)
    if unit in ("second", "minute", "hour"):
        return then.isoformat(timespec=f"{unit}s")
    return then.date() if unit == "day" else _unit(then, unit)


def _last(match: re.Match[str], created: datetime, words: TimeWords) -> str:
    unit = match["unit"]
    return _unit(_before(created, unit, 1), unit)


def _before(moment: datetime, unit: str, count: int) -> datetime:
    if unit == "month":
        return moment - relativedelta(months=count)
    if unit == "year":
        return moment - relativedelta(years=count)
    return moment - timedelta(**{f"{unit}s": count})


def _unit(moment: datetime, unit: str) -> str:
    """The week, month or year of a moment."""
    if unit == "week":
        year, week, _ = moment.isocalendar()
        return f"{year:04}-W{week:02}"
    return moment.date().isoformat()[: 7 if unit == "month" else 4]


_READERS = {
    "iso": _moment,
    "ctime": _moment,
    "apache": _moment,
    "dotted": _moment,
    "cjk": _moment,
    "named": _moment,
    "near": _near,
    "glog": _glog,
    "month": _month,
    "slashed": _slashed,
    "ago": _ago,
    "last": _last,
    "part": _part,
    "weekday": _weekday,
    "day": _day,
    "named clock": _named_clock,
    "clock": _clock,
    "number": _number,
}
