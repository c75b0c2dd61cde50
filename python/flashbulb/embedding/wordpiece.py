"""WordPiece over BERT's basic tokeniser, in Python alone, equal id for id to ``tokenizers``.

Which characters vanish and which are punctuation is frozen in ``data/characters.txt`` as the BERT
normaliser of ``tokenizers`` sees it (Unicode 8), so that the ids of a text do not depend on the
Unicode tables of the Python that runs (only capitals newer than Unicode 13 may, and have no token
in either case). Special tokens such as ``[SEP]`` inside a text are plain text
here: what a user writes never steers the model.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import chain, islice
from pathlib import Path

__all__ = ["DATA", "LONGEST_WORD", "WordPiece", "read_vocabulary", "split_words"]

DATA = Path(__file__).parent / "data"

LONGEST_WORD = 100
"""A word of more characters than this has no pieces: it is unknown as a whole."""

_CACHED_WORDS = 50_000
_BLOCK_WORDS = 65_536

_CJK = (
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B920, 0x2CEAF),  # not 2B820: the reference has it so, and no token of that block exists
    (0x2F800, 0x2FA1F),
)


class _Ranges:
    """A set of code points as sorted, disjoint, inclusive ranges."""

    def __init__(self, ranges: Iterable[tuple[int, int]]) -> None:
        self._first, self._last = zip(*ranges, strict=True)

    def __contains__(self, code: int) -> bool:
        place = bisect_right(self._first, code) - 1
        return bool(place >= 0 and code <= self._last[place])


@cache
def _character_sets() -> tuple[_Ranges, _Ranges]:
    """Code points that vanish, and those that are punctuation."""
    sets = {}
    for line in (DATA / "characters.txt").read_text("ascii").splitlines():
        if not line or line.startswith("#"):
            continue
        name, *ranges = line.split()
        pairs = (text.split("-") for text in ranges)
        sets[name] = _Ranges((int(pair[0], 16), int(pair[-1], 16)) for pair in pairs)
    return sets["vanish"], sets["punctuation"]


class _Characters(dict[int, str]):
    """What each code point becomes; words come out separated by spaces. Filled as it is used."""

    def __missing__(self, code: int) -> str:
        text = self[code] = _normalise_character(code)
        return text


def _normalise_character(code: int) -> str:
    vanish, punctuation = _character_sets()
    character = chr(code)
    if code in vanish:
        return ""
    if character.isspace():
        return " "
    pieces = []
    for part in unicodedata.normalize("NFD", character):
        if ord(part) not in vanish:
            lower = part.lower()
            pieces.append(f" {lower} " if ord(part) in punctuation else lower)
    text = "".join(pieces)
    return f" {text} " if any(first <= code <= last for first, last in _CJK) else text


_characters = _Characters()
# ASCII keeps one character for one, which `str.translate` does several times faster.
_ascii = {code: chr(code).lower() if code >= 32 else None for code in range(127)} | {127: None}
_ascii.update(dict.fromkeys(map(ord, "\t\n\r"), " "))
_ASCII_WORDS = re.compile(r"[a-z0-9]+|[^ ]")
_SPACED_WORDS = re.compile(r"[^ ]+")


def split_words(text: str) -> list[str]:
    """Words and punctuation marks of a text, cleaned, lower case, without accents."""
    if text.isascii():
        return _ASCII_WORDS.findall(text.translate(_ascii))
    return text.translate(_characters).split()


def _iterate_words(text: str) -> Iterator[str]:
    """As `split_words`, without holding all words at once."""
    if text.isascii():
        matches = _ASCII_WORDS.finditer(text.translate(_ascii))
    else:
        matches = _SPACED_WORDS.finditer(text.translate(_characters))
    return (match.group() for match in matches)


class _PieceCache(dict[str, tuple[int, ...]]):
    """Pieces of the words met so far; emptied when it is full, so that it stays bounded."""

    def __init__(self, pieces: Callable[[str], tuple[int, ...]]) -> None:
        super().__init__()
        self._pieces = pieces

    def __missing__(self, word: str) -> tuple[int, ...]:
        pieces = self._pieces(word)
        if len(word) <= LONGEST_WORD:
            if len(self) >= _CACHED_WORDS:
                self.clear()
            self[word] = pieces
        return pieces


class WordPiece:
    """Greedy longest-match-first WordPiece.

    Parameters
    ----------
    vocabulary
        The tokens; a token's id is its place. Pieces inside a word start with ``##``.
    unknown
        Ids for a word that has no pieces; by default the id of ``[UNK]`` alone.

    Attributes
    ----------
    vocabulary
        The id of each token.
    characters
        The characters that occur in tokens; a word with any other has no pieces.
    """

    def __init__(
        self,
        vocabulary: Sequence[str],
        unknown: Callable[[str], tuple[int, ...]] | None = None,
    ) -> None:
        self.vocabulary = {token: number for number, token in enumerate(vocabulary)}
        if "[UNK]" not in self.vocabulary:
            raise ValueError("a WordPiece vocabulary needs the token [UNK]; this one lacks it")
        unknown_ids = (self.vocabulary["[UNK]"],)
        self._unknown = unknown if unknown is not None else lambda word: unknown_ids
        self._longest = max(map(len, vocabulary))
        self.characters = frozenset(chain.from_iterable(vocabulary))
        self._cache = _PieceCache(self.pieces)

    def longest_match(self, word: str, start: int) -> tuple[int, int] | None:
        """Id and end of the longest token that matches at `start`; None if there is none."""
        prefix = "##" if start else ""
        for end in range(min(len(word), start + self._longest), start, -1):
            number = self.vocabulary.get(prefix + word[start:end])
            if number is not None:
                return number, end
        return None

    def pieces(self, word: str) -> tuple[int, ...]:
        """Ids of one word as `split_words` gives it."""
        if len(word) > LONGEST_WORD or not self.characters.issuperset(word):
            return self._unknown(word)
        numbers, start = [], 0
        while start < len(word):
            match = self.longest_match(word, start)
            if match is None:
                return self._unknown(word)
            number, start = match
            numbers.append(number)
        return tuple(numbers)

    def encode(self, text: str) -> list[int]:
        """Ids of a text, without ``[CLS]`` and ``[SEP]``."""
        return list(chain.from_iterable(map(self._cache.__getitem__, split_words(text))))

    def wrapped(self, numbers: Sequence[int]) -> list[int]:
        """Ids between ``[CLS]`` and ``[SEP]``, as a transformer expects them."""
        return [self.vocabulary["[CLS]"], *numbers, self.vocabulary["[SEP]"]]

    def encode_blocks(self, text: str) -> Iterator[list[int]]:
        """As `encode`, in pieces of bounded size: for texts of many megabytes."""
        words = _iterate_words(text)
        while block := list(islice(words, _BLOCK_WORDS)):
            yield list(chain.from_iterable(map(self._cache.__getitem__, block)))


@cache
def read_vocabulary() -> tuple[str, ...]:
    """The 30,522 tokens of the bundled vocabulary (BERT base, uncased), in the order of ids."""
    return tuple((DATA / "vocabulary.txt").read_text("utf-8").rstrip("\n").split("\n"))
