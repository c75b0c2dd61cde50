"""What the local model sees of a text besides its embedding: words, letters and classes, hashed.

An embedding alone cannot tell "no data was lost" from "data was lost": order is in runs of words
and in pairs of the rule file's classes ("negator ... loss"), spelling and inflection in runs of
letters. A feature is a 32 bit number; its low bits say which weight, its highest bit which sign.
"""

from __future__ import annotations

import re
import unicodedata
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from .lexicon import members
from .rules import RuleSet
from .sentence import Sentence
from .text import CJK

__all__ = [
    "Hashes",
    "Statement",
    "class_pair",
    "divided",
    "letters",
    "pairs",
    "plain",
    "runs",
    "said",
    "spans",
    "word_hash",
    "words",
]

Hashes = NDArray[np.uint32]
Part = tuple[int, str, list[Sentence]]
"""What is read of a folded text: where it begins, the piece, its sentences."""

_WORD = re.compile(rf"[a-z0-9_\u00df-\u1fff']+|[{CJK}]|[?:;,\"(=/]")
_EDGE = zlib.crc32(b"\x02edge")
# Odd constants that tell runs of one, two, three words and a gap apart.
_PLACES = np.array([0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D], dtype=np.uint32)
_KINDS = np.array([0x27D4EB2F, 0x165667B1, 0xD3A2646C, 0xFD7046C5], dtype=np.uint32)
_HALF = np.uint32(16)
_SPREADING = ((_HALF, np.uint32(0x85EBCA6B)), (np.uint32(13), np.uint32(0xC2B2AE35)))
_LETTERS = range(3, 6)
_CLASS_REACH = 3
"""How many known words on a word of the rule file is paired with."""


_END = re.compile(r"(?:\s*[!?]+|[.。…\"')\]])*")
"""What ends a sentence after its last word; French sets its marks apart."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence, and its part of the folded text."""

    text: str
    sentence: Sentence
    first: int
    """The token that it begins with: labels in front are left out of it."""


def _statements(piece: str, sentences: Iterable[Sentence], label: int) -> list[Statement]:
    """Divide a piece of folded text at the ends of its sentences.

    Words in front of a sentence that have the class `label` ("URGENT: ...") are left out: they do
    not say what happened.
    """
    worded = [sentence for sentence in sentences if sentence.ends]
    found = []
    start = 0
    for place, sentence in enumerate(worded):
        end = len(piece)
        if place + 1 < len(worded):
            match = _END.match(piece, sentence.ends[-1])
            end = min(match.end() if match else end, worded[place + 1].starts[0])
        opening = 0
        while opening + 1 < len(sentence.classes) and sentence.classes[opening] & label:
            opening += 1
        begin = sentence.starts[opening] if opening else start
        found.append(Statement(piece[begin:end], sentence, opening))
        start = end
    return found


def divided(parts: Iterable[Part], rules: RuleSet) -> list[Statement]:
    """The sentences of a text, as the rules divide it."""
    label = rules.class_set("urgent")
    return [each for _, piece, own in parts for each in _statements(piece, own, label)]


def said(text: str, sentences: Sequence[Statement]) -> str:
    """What of a text is embedded: all of it, without labels in front."""
    if any(each.first for each in sentences):
        text = " ".join(each.text for each in sentences)
    return plain(text)


def plain(text: str) -> str:
    """The form in which a text is embedded: of usual width, without exclamation marks."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    return text.replace("!", "")


def words(folded: str) -> list[str]:
    """The words of a folded text, a sign or a character of Chinese and Japanese being one too.

    Numbers count as one word, exclamation marks and stops as none.
    """
    return ["0" if word.isdecimal() else word for word in _WORD.findall(folded)]


def spans(folded: str) -> list[tuple[int, int]]:
    """Where the words of a folded text lie."""
    return [match.span() for match in _WORD.finditer(folded)]


def word_hash(word: str) -> int:
    """A number that stands for a word in :func:`runs`."""
    return zlib.crc32(word.encode())


def runs(hashes: Sequence[int]) -> Hashes:
    """Features of words in a row: each, each two and three in a row, each two around a third.

    Parameters
    ----------
    hashes
        Of each word, by :func:`word_hash`.
    """
    row = np.array([_EDGE, *hashes, _EDGE], dtype=np.uint32)
    first, second, third = row * _PLACES[0], row * _PLACES[1], row * _PLACES[2]
    twos = first[:-1] ^ second[1:]
    return _mixed(
        np.concatenate(
            (
                first[1:-1] ^ _KINDS[0],
                twos ^ _KINDS[1],
                twos[:-1] ^ third[2:] ^ _KINDS[2],
                first[:-2] ^ third[2:] ^ _KINDS[3],
            )
        )
    )


def letters(word: str) -> Hashes:
    """Features of a word's spelling: runs of three to five letters, its two ends marked."""
    marked = f"<{word}>"
    found = [
        zlib.crc32(marked[start : start + length].encode())
        for length in _LETTERS
        for start in range(len(marked) - length + 1)
    ]
    return np.array(found, dtype=np.uint32)


def pairs(statements: Iterable[Statement]) -> list[tuple[int, int]]:
    """Pairs of what the rule file knows: each word of a class with the next few, and alone.

    An item is two sets of classes as bits; the second is 0 for a word alone.
    """
    found = []
    for each in statements:
        known = [classes for classes in each.sentence.classes[each.first :] if classes]
        for place, classes in enumerate(known):
            found.append((classes, 0))
            following = islice(known, place + 1, place + 1 + _CLASS_REACH)
            found.extend((classes, later) for later in following)
    return found


def class_pair(names: Sequence[str], first: int, second: int) -> Hashes:
    """Features of an item of :func:`pairs`: each class of one with each of the other.

    Parameters
    ----------
    names
        Of the rule file's classes, by bit.
    """
    ones, others = ([names[i] for i in members(bits)] for bits in (first, second))
    found = [zlib.crc32(f"\x01{one}>{other}".encode()) for one in ones for other in others or [""]]
    return np.array(found, dtype=np.uint32)


def _mixed(hashes: Hashes) -> Hashes:
    """Spread the bits: the last steps of MurmurHash3. Changes its argument."""
    for shift, factor in _SPREADING:
        hashes ^= hashes >> shift
        hashes *= factor
    hashes ^= hashes >> _HALF
    return hashes
