"""Folding of text and its division into tokens.

Folding makes "ＰＲＯＤ ｉｓ down", "PROD is down" and "prod is d\u200down" the same text: NFKD per
character, case folded, Latin accents and invisible characters dropped. Matching runs on folded
text; :class:`Folded` translates offsets back to the text as it was given.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from itertools import groupby

__all__ = ["TOKEN", "Folded", "fold", "unwrapped"]

_QUOTES = dict.fromkeys(map(ord, "“”„‟«»「」『』《》"), '"') | dict.fromkeys(
    map(ord, "‘’‚‛´`"), "'"
)
_LIGATURES = {ord("œ"): "oe", ord("Œ"): "oe", ord("æ"): "ae", ord("Æ"): "ae"}
"""Letters that NFKD leaves whole: "sœur" is "soeur"."""
_MAX_CACHED_CHARACTERS = 65_536


class _FoldTable(dict[int, str]):
    """Character to folded characters, filled on demand; for ``str.translate``."""

    def __missing__(self, code: int) -> str:
        folded = _fold_character(chr(code))
        if len(self) < _MAX_CACHED_CHARACTERS:
            self[code] = folded
        return folded


def _fold_character(character: str) -> str:
    replaced = _QUOTES.get(ord(character)) or _LIGATURES.get(ord(character))
    if replaced is not None:
        return replaced
    if unicodedata.category(character) == "Cf":
        return ""
    decomposed = unicodedata.normalize("NFKD", character).casefold()
    decomposed = unicodedata.normalize("NFKD", decomposed)
    # Latin accents and variation selectors only: the voicing marks of Japanese must stay.
    return "".join(
        c for c in decomposed if not ("\u0300" <= c <= "\u036f" or "\ufe00" <= c <= "\ufe0f")
    )


_TABLE = _FoldTable()


class Folded:
    """A folded text that knows where each of its characters came from."""

    __slots__ = ("_ends", "_original", "text")

    def __init__(self, original: str) -> None:
        self._original = original
        self.text = original.lower() if original.isascii() else original.translate(_TABLE)
        self._ends: list[int] | None = None

    def origin(self, start: int, end: int) -> tuple[int, int]:
        """Offsets in the original text of the folded span ``[start, end)``."""
        if self._original.isascii():
            return start, end
        if self._ends is None:
            # _ends[i]: folded length of original[: i + 1]; only made when something matched.
            total, ends = 0, []
            for character in self._original:
                total += len(_TABLE[ord(character)])
                ends.append(total)
            self._ends = ends
        first = bisect_right(self._ends, start)
        last = bisect_right(self._ends, end - 1)
        return first, last + 1


def fold(text: str) -> str:
    """The folded form of ``text``."""
    return Folded(text).text


_FULL_LINE = 40
"""Characters of a line that somebody may have broken because it was full."""
_LINE_START = re.compile(
    # A list, a quoted line, a line of a log.
    r"\s*(?:(?:[-*+•>]|\d{1,3}[.)]|[a-z][.)])\s|\[|\d{4}-\d\d-\d\d|\d\d:\d\d:\d\d"
    r"|(?:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|CRITICAL|FATAL|PANIC)\b)"
)
_PARAGRAPH = "\f"


def unwrapped(text: str) -> str:
    """The text with a space for each line break inside a sentence; no character is moved.

    A break is inside a sentence where the next line begins with a small letter or a digit, or
    where its first word had no more room, by the longest line of the paragraph. A blank line, and
    one that begins like one of a list or log, ends the sentence: a form feed. Other breaks stay.
    """
    if "\n" not in text:
        return text
    lines = text.split("\n")
    widths: list[int] = []
    for _, paragraph in groupby(lines, lambda line: not line.strip()):
        own = [len(line.rstrip()) for line in paragraph]
        widths += [max(own)] * len(own)
    parts = lines[:1]
    for before, line, width in zip(lines, lines[1:], widths, strict=False):
        parts += [_joint(before, line, width), line]
    return "".join(parts)


def _joint(before: str, line: str, width: int) -> str:
    """What stands for the break between two lines of a paragraph of that width."""
    words = line.split(maxsplit=1)
    if not words or not before.strip() or _LINE_START.match(line):
        return _PARAGRAPH
    full = width >= _FULL_LINE and len(before.rstrip()) + 1 + len(words[0]) > width
    return " " if full or words[0][0].islower() or words[0][0].isdecimal() else "\n"


CJK = "\u3005-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
"""Character range of Chinese and Japanese script, with the voicing marks of folded kana."""

TOKEN = re.compile(
    rf"(?P<cjk>[{CJK}]+)"
    # A compound whose prefix turns the word around ("de-escalation") is one unknown word.
    r"|(?P<word>(?:(?:de|non|anti|un|ex|re|pre|mid)-)?"
    r"[a-z_\u00df-\u1fff][a-z0-9_\u00df-\u1fff]*(?:'[a-z]+)*)"
    # The stop of a German ordinal ("14. März") ends no sentence either.
    r"|(?P<number>\d{1,2}\.(?=\s+(?:jan|feb|marz|apr|mai|jun|jul|aug|sep|okt|nov|dez))"
    r"|\d+(?:[.,:]\d+)*[a-z]*)"
    # A stop between letters ("java.lang") ends no sentence.
    r"|(?P<stop>\.(?=[\s\"')\]]|$)|[!?。…\f])"
    r'|(?P<mark>[,;:"\'()=\[\]{}、—–|<>\n])'
)
