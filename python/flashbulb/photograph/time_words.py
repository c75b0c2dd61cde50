"""The words of ``data/times.toml``, and the patterns of spans that are written like a time."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Iterable
from importlib import import_module
from importlib.resources import files
from typing import Any

from dateutil.parser import parserinfo

_toml: Any = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")

__all__ = ["TimeWords", "time_words"]

_ENGLISH_MONTHS = (
    "January|February|March|April|May|June|July|August|September|October|November|December|"
    "Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept|Sep|Oct|Nov|Dec"
)
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


class _ParserInfo(parserinfo):
    """dateutil's words, and what stands between them in other languages."""

    def __init__(self, months: dict[str, list[str]]) -> None:
        self.JUMP = [*parserinfo.JUMP, "de", "del", "er", "uhr"]
        self.MONTHS = [
            (*names, *months.get(str(number), ()))
            for number, names in enumerate(parserinfo.MONTHS, 1)
        ]
        super().__init__()


class TimeWords:
    """What the readers of times look up.

    Attributes
    ----------
    patterns : dict of str to pattern
        By the name of their reader, in the order in which they are tried. The group `span` is the
        time itself.
    gap : pattern
        What may stand between a day and a time of the clock that belong together.
    loose : set of str
        Days and parts of days that are a time only in a sentence of the past.
    before, no_event, recurring, past : pattern
        The words of the tables ``[not]`` of ``times.toml``.
    """

    def __init__(self, tables: dict[str, Any]) -> None:
        self.info = _ParserInfo(tables["months"])
        self.days: dict[str, int] = {k.lower(): v for k, v in tables["days"].items()}
        self.parts: dict[str, list[int]] = {k.lower(): v for k, v in tables["parts"].items()}
        self.loose = frozenset(tables["not"]["loose"])
        self.weekday_parts: dict[str, list[int]] = tables["part_of_weekday"]
        self.zones = {name: round(hours * 3600) for name, hours in tables["zones"].items()}
        self._numbers: dict[str, int] = tables["numbers"]
        self.patterns = self._patterns(tables)
        self.gap = re.compile(
            r"[\s,]{0,2}(?:(?:at|on|of|um|around|about|à|a las|@|gegen|about|–|-)\s)?",
            re.IGNORECASE,
        )
        words = tables["not"]
        self.denied = re.compile(r"(?<!\w)(?:not|never|nicht|no|pas)(?!\w)|n['’]t(?!\w)", re.I)
        self.rather = re.compile(r",?\s(?:but|sondern|sino|mais)\s", re.I)
        self.before = re.compile(
            rf"(?<!\w)(?:{_any(words['before'])})[\s:]{{1,2}}(?:the\s)?$", re.I
        )
        self.no_event = re.compile(rf"(?<!\w)(?:{_any(words['dates'])})(?!\w)", re.I)
        self.recurring = re.compile(rf"(?<!\w)(?:{_any(words['clocks'])})(?!\w)", re.I)
        self.past = re.compile(rf"(?<!\w)(?:{_any(words['past'])}|\w{{2,30}}ed)(?!\w)", re.I)

    def number(self, text: str) -> int:
        """Of a word or figures."""
        return self._numbers.get(text.lower()) or int(text)

    def weekday(self, name: str) -> int:
        """Monday is 0."""
        return _WEEKDAYS.index(name)

    def _patterns(self, tables: dict[str, Any]) -> dict[str, re.Pattern[str]]:
        foreign = [name for names in tables["months"].values() for name in names]
        month = f"(?:{_any(foreign)}|{_ENGLISH_MONTHS})"
        weekday = f"(?:{'|'.join(_WEEKDAYS)})"
        number = f"(?:{_any(self._numbers)}|\\d{{1,3}})"
        zone = rf"(?:\s?(?:(?:{_any(self.zones)})(?!\w)|[+-]\d\d:?\d\d(?!\d)))?"
        half = r"\s?(?:[ap]\.m\.|[AP]\.M\.|[ap]m(?!\w)|[AP]M(?!\w))"
        hms = r"\d{1,2}:\d\d(?::\d\d(?:[.,]\d{1,9})?)?"
        start = r"(?<![\w.:/+-])(?<!\d,)"
        end = r"(?![\w/-]|[.:,]\d)"
        year = r"(?:1[89]|20)\d\d"
        day = r"(?:3[01]|[12]\d|0?[1-9])"
        ordinal = r"(?:st|nd|rd|th|er|\.)?"
        day_month = rf"{day}{ordinal}\s(?:of\s|de\s)?{month}"
        patterns = {
            "iso": rf"{start}(?P<span>(?P<date>{year}([-/])\d\d\3\d\d)"
            rf"(?:[T ,]\s?(?P<clock>\d\d:\d\d(?::\d\d(?:[.,]\d{{1,9}})?)?{zone}))?){end}",
            "ctime": rf"(?<!\w)(?P<span>(?P<date>{month}\s{{1,2}}{day})"
            rf"\s(?P<clock>\d\d:\d\d:\d\d{zone})\s(?P<year>{year}))(?!\w)",
            "apache": rf"(?P<span>(?P<date>\d\d/[A-Z][a-z][a-z]/\d{{4}}):(?P<clock>{hms}{zone}))",
            "glog": r"(?<!\w)[IWEF](?P<span>(?P<month>\d\d)(?P<day>\d\d)\s"
            r"(?P<clock>\d\d:\d\d:\d\d))",
            "cjk": r"(?P<span>(?P<date>\d{4}年\d{1,2}月\d{1,2}日))",
            "dotted": rf"{start}(?P<span>(?P<date>{day}\.(?:1[0-2]|0?[1-9])\.{year})){end}",
            "slashed": rf"{start}(?P<span>\d{{1,2}}/\d{{1,2}}/{year}){end}",
            "named": rf"{start}(?P<span>(?:{weekday},?\s)?(?P<date>"
            rf"{day_month}\.?,?\s(?:del?\s)?{year}|{month}\.?\s{day}{ordinal},?\s{year})){end}",
            "near": rf"{start}(?P<span>(?:{weekday},?\s)?(?P<date>{day_month}"
            rf"|{month}\.?\s{{1,2}}{day}{ordinal})){end}(?!\s(?:percent|per\scent|people|of\s))",
            "month": rf"(?:[Ii]n|[Ss]ince|[Oo]f|[Ee]arly|[Ll]ate)\s(?P<span>{month}\s{year}){end}",
            "ago": rf"(?<!\w)(?P<span>(?P<half>half\s)?(?P<count>{number})\s"
            r"(?P<unit>second|minute|hour|day|night|week|month|year)s?\sago)(?!\w)",
            "last": r"(?<!\w)(?<!the\s)(?i:(?P<span>last\s(?P<unit>week|month|year)))(?!\w|['’]s)",
            "part": _dictionary(self.parts),
            "weekday": rf"(?:(?<!\w)(?P<preposition>[Ll]ast|[Ss]ince)\s|(?<!\w)[Oo]n\s)"
            rf"(?P<span>(?P<weekday>{weekday})(?:\s(?P<part>{_any(self.weekday_parts)}))?)(?!\w|['’]s)",
            "day": _dictionary(self.days),
            "named clock": r"(?<!\w)(?P<preposition>(?i:at|around|since)\s)"
            r"(?P<span>noon|midnight)(?!\w)",
            "clock": rf"(?:(?<!\w)(?P<preposition>(?i:at|since|um|seit|gegen)\s"
            rf"|(?i:around|about|from)\s(?=[\d:]{{1,8}}{half}))|{start})"
            rf"(?P<span>(?P<clock>(?:{hms}(?:{half})?|\d{{1,2}}{half}){zone})(?:\sUhr)?)"
            r"(?![\w:/-]|\.\d|\s?(?:min|minutes?|hours?|h|sec|seconds?|%|percent|km)(?!\w))",
            "number": rf"(?<!\w)(?P<preposition>(?i:at|since|around|about)\s)(?P<span>{number})"
            r"(?=(?:\so['’]clock)?\s(?:this|last|yesterday|tomorrow)\s)",
        }
        return {name: re.compile(pattern) for name, pattern in patterns.items()}


def _any(words: Iterable[str]) -> str:
    """A pattern for any of these words, the longest first."""
    return "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))


def _dictionary(words: Iterable[str]) -> str:
    """A pattern for words of a table; those of Chinese and Japanese have no bounds."""
    plain = [word for word in words if word.isascii() or word[0] < "\u2e80"]
    joined = [word for word in words if word not in plain]
    return rf"(?i:(?P<span>(?<![\w@/.-])(?:{_any(plain)})(?!['’]s|[\w@-]|\.\w)|{_any(joined)}))"


@functools.cache
def time_words() -> TimeWords:
    """The words that come with Flashbulb."""
    text = (files(__package__) / "data" / "times.toml").read_text("utf-8")
    return TimeWords(_toml.loads(text))
