"""BM25 over the words that a query and a memory share, for one namespace.

The index is derived from the texts and lives in RAM: per word one ``array`` of packed postings,
read by NumPy without a copy. Document frequencies and lengths are exact at every moment, and a
score is a sum over the query's words in sorted order, so that it depends neither on the order
in which memories came nor on any other namespace, bit for bit.
"""

from __future__ import annotations

import math
import re
import unicodedata
from array import array
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from itertools import chain

import numpy as np
from numpy.typing import NDArray

__all__ = ["LexicalIndex", "words"]

# The defaults of Anserini. On LoCoMo they find 0.63 at 10 where 1.2 and 0.75 find 0.61.
K1 = 0.9
B = 0.4
COMMON_SHARE = 0.1
"""Query words in more than this share of the rows are skipped if others remain; so are English
function words."""
BEST_ROWS = 1000
"""Only so many best rows have a lexical score; the others have 0 by definition."""

# Pronouns, auxiliaries, question words, prepositions: in a store of some hundred rows they are
# not yet common by count, but never what a question is about.
_FUNCTION_WORDS = """
    a about after all also am an and any are as at be because been before being but by can could
    did do does doing for from had has have having he her here hers him his how i if in into is it
    its just me might more most must my no nor not of off on once only or other our ours out over
    own same shall she should so some such than that the their theirs them then there these they
    this those through to too under until up very was we were what when where which while who whom
    whose why will with would you your yours"""

_LONGEST_WORD = 64
# Of a term: its text, its array, its place in the dictionary; of a posting, with what an array
# keeps free. Measured.
_TERM_BYTES = 160
_POSTING_BYTES = 9
_COUNT_BITS = 16  # a posting is slot << 16 | count
_MAX_COUNT = (1 << _COUNT_BITS) - 1

# Vowel signs and accents: parts of a word that Python's \w leaves out.
_MARKS = (
    "\u0300-\u036f\u0483-\u0487\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed"
    "\u0900-\u0963\u0981-\u0df3\u0f71-\u0f87\u1b00-\u1b44"
)
# Scripts written without spaces between words: Han, kana, Hangul (agglutinating), Thai, Lao,
# Burmese, Khmer. They are cut into pairs of characters.
_UNSPACED = (
    "\u0e01-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3041-\u30ff\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
_JOINERS = "-_./@:+&#'"
_ASCII_WORD = re.compile(rf"[a-z0-9]+(?:[{re.escape(_JOINERS)}][a-z0-9]+)*")
_LETTER = rf"(?:(?![{_UNSPACED}])(?:[^\W_]|[{_MARKS}]))"
_ANY_WORD = re.compile(rf"[{_UNSPACED}]+|{_LETTER}+(?:[{re.escape(_JOINERS)}]{_LETTER}+)*")
_UNSPACED_START = re.compile(rf"[{_UNSPACED}]")
_SEPARATOR = re.compile(r"[-_./@:+&#]")
# Where camel case joins words: userName, HTTPServer.
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_CASED_WORD = re.compile(r"[A-Za-z0-9]+")
_INVISIBLE = dict.fromkeys(map(ord, "\u00ad\u200b\u200c\u200d\u2060\ufeff"))
_INVISIBLE[ord("’")] = ord("'")
_INVISIBLE[ord("ʼ")] = ord("'")
_ACCENTS = re.compile("[\u0300-\u036f]+")
_VOWEL = re.compile("[aeiouy]")


def words(text: str, *, query: bool = False) -> list[str]:
    """The index terms of a text, in order, with repeats.

    Words and numbers, without case, accents and width; English endings (plural, -ed, -ing) are
    cut, which finds 2 % more on LoCoMo. Joined names such as ``KAFKA-4`` give the whole and
    each part; so do those in camel case, such as ``OutOfMemoryError``, whose parts come last.
    Scripts without spaces give pairs of characters, and for a stored text (not a `query`) single
    characters too, so that a query of one character finds them.
    """
    if text.isascii():
        lowered = text.lower()
        terms = list(chain.from_iterable(map(_parts, _ASCII_WORD.findall(lowered))))
        if lowered == text:
            return terms
    else:
        plain = _ACCENTS.sub("", unicodedata.normalize("NFKD", text.translate(_INVISIBLE)))
        terms = []
        for word in _ANY_WORD.findall(unicodedata.normalize("NFKC", plain).casefold()):
            if not _UNSPACED_START.match(word):
                terms.extend(_parts(word))
                continue
            if len(word) == 1 or not query:
                terms.extend(word)
            terms.extend(word[i : i + 2] for i in range(len(word) - 1))
    if _HUMP.search(text):
        for name in _CASED_WORD.findall(text):
            parts = _HUMP.split(name)
            if len(parts) > 1:
                terms.extend(_stem(part[:_LONGEST_WORD].lower()) for part in parts)
    return terms


@lru_cache(maxsize=1 << 15)
def _parts(word: str) -> tuple[str, ...]:
    """The terms of a word, which may be a joined name."""
    if word.isalnum():
        return (_stem(word[:_LONGEST_WORD]),)
    word = word.removesuffix("'s").replace("'", "")
    parts = _SEPARATOR.split(word)
    whole = (word[:_LONGEST_WORD],) if len(parts) > 1 else ()
    return (*whole, *(_stem(part[:_LONGEST_WORD]) for part in parts if part))


@lru_cache(maxsize=1 << 15)
def _stem(word: str) -> str:
    """Cut the commonest English endings; the rest need not be a word, only the same one."""
    if len(word) < 4 or not (word.isascii() and word.isalpha()):
        return word
    if word[-1] == "s" and not word.endswith(("us", "ss", "is")):
        word = word[:-3] + "y" if word.endswith("ies") and len(word) > 4 else word[:-1]
    if len(word) > 4:
        for ending in ("ing", "ed"):
            rest = word[: -len(ending)]
            if word.endswith(ending) and len(rest) >= 3 and _VOWEL.search(rest):
                word = rest
                if word[-1] == word[-2] and word[-1] not in "lsz":
                    word = word[:-1]
                break
    return word[:-1] if len(word) > 3 and word[-1] == "e" else word


_FUNCTION_TERMS = frozenset(term for word in _FUNCTION_WORDS.split() for term in words(word))


class LexicalIndex:
    """The words of one namespace's memories.

    Not thread-safe; the store's lock guards it.
    """

    def __init__(self) -> None:
        self._ids = array("q")  # by slot, ascending; a removed memory leaves its slot behind
        self._lengths = array("i")
        self._postings: dict[str, array[int]] = {}  # ascending by slot
        self._rows = 0
        self._words = 0

    def __len__(self) -> int:
        return self._rows

    @property
    def memory_bytes(self) -> int:
        """About what it takes in RAM."""
        return (
            _TERM_BYTES * len(self._postings) + _POSTING_BYTES * self._words + 12 * len(self._ids)
        )

    def document_frequency(self, term: str) -> int:
        """In how many memories this term of :func:`words` is."""
        return len(self._postings.get(term, ()))

    def add(self, items: Iterable[tuple[int, str]]) -> None:
        """Add memories as (id, text), ids ascending and above all that were added before."""
        if not self._ids:
            self._build(items)
            return
        for id, text in items:
            self._ids.append(id)
            self._lengths.append(0)
            self._enter(len(self._ids) - 1, text)

    def _build(self, items: Iterable[tuple[int, str]]) -> None:
        """What :meth:`_enter` makes of each of many memories, at once."""
        terms: list[str] = []
        for id, text in items:
            found = words(text)
            terms += found
            self._ids.append(id)
            self._lengths.append(len(found))
        self._rows, self._words = len(self._ids), len(terms)
        numbers = {term: number for number, term in enumerate(dict.fromkeys(terms))}
        number = np.fromiter(map(numbers.__getitem__, terms), np.int64, len(terms))
        slot = np.repeat(np.arange(self._rows), np.frombuffer(self._lengths, np.intc))
        places, counts = np.unique(number * self._rows + slot, return_counts=True)
        number, slot = np.divmod(places, max(self._rows, 1))
        data = (slot << _COUNT_BITS | np.minimum(counts, _MAX_COUNT)).tobytes()
        ends = (8 * np.searchsorted(number, np.arange(len(numbers)), side="right")).tolist()
        for term, start, end in zip(numbers, [0, *ends], ends, strict=False):
            self._postings[term] = array("q", data[start:end])

    def replace(self, id: int, text: str, new: str) -> None:
        """Give a memory another text; `text` is the one that it has."""
        self.remove(id, text)
        self._enter(bisect_left(self._ids, id), new)

    def _enter(self, slot: int, text: str) -> None:
        postings = self._postings
        terms = words(text)
        packed = slot << _COUNT_BITS
        for term, count in Counter(terms).items():
            posting = packed | min(count, _MAX_COUNT)
            try:
                known = postings[term]
            except KeyError:
                postings[term] = array("q", (posting,))
            else:
                if known[-1] < posting:
                    known.append(posting)
                else:
                    insort(known, posting)
        self._lengths[slot] = len(terms)
        self._rows += 1
        self._words += len(terms)

    def remove(self, id: int, text: str) -> None:
        """Take a memory out; `text` is the one that it has."""
        slot = bisect_left(self._ids, id)
        terms = words(text)
        for term in set(terms):
            postings = self._postings[term]
            del postings[bisect_left(postings, slot << _COUNT_BITS)]
            if not postings:
                del self._postings[term]
        self._lengths[slot] = 0
        self._rows -= 1
        self._words -= len(terms)

    def search(
        self, query: str, saturation: float
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The memories that share words with `query`, at most 1,000, by ascending id.

        Parameters
        ----------
        saturation : float
            c of the score ``b / (b + c)``, b being the BM25 sum.

        Returns
        -------
        ids : (n,) int64
        scores : (n,) float64, in (0, 1)
        """
        known = {term: self._postings.get(term) for term in sorted(set(words(query, query=True)))}
        present = {term: found for term, found in known.items() if found}
        limit = COMMON_SHARE * self._rows
        telling = {t: p for t, p in present.items() if t not in _FUNCTION_TERMS} or present
        chosen = {t: p for t, p in telling.items() if len(p) <= limit} or telling
        sums = np.zeros(len(self._ids))
        if chosen:
            lengths = np.frombuffer(self._lengths, dtype=np.intc)
            mean_length = self._words / self._rows
            for postings in chosen.values():
                packed = np.frombuffer(postings, dtype=np.int64)
                rows = packed >> _COUNT_BITS
                counts = packed & _MAX_COUNT
                weight = math.log1p((self._rows - len(postings) + 0.5) / (len(postings) + 0.5))
                norm = lengths[rows] * (K1 * B / mean_length) + K1 * (1.0 - B)
                sums[rows] += weight * (K1 + 1.0) * counts / (counts + norm)
        best = _best(sums)
        ids = np.frombuffer(self._ids, dtype=np.int64)[best] if len(best) else _NO_IDS
        return ids, sums[best] / (sums[best] + saturation)


_NO_IDS = np.empty(0, dtype=np.int64)


def _best(sums: NDArray[np.float64]) -> NDArray[np.int64]:
    """The slots of the best sums above 0; of equal ones at the end, the lowest slots."""
    positive = np.flatnonzero(sums)
    if len(positive) <= BEST_ROWS:
        return positive
    values = sums[positive]
    last = np.partition(values, len(values) - BEST_ROWS)[len(values) - BEST_ROWS]
    above = positive[values > last]
    equal = positive[values == last][: BEST_ROWS - len(above)]
    return np.sort(np.concatenate((above, equal)))
