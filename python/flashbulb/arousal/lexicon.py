"""Words to classes: the vocabulary of a rule file, compiled to dictionaries.

A class is one bit of an integer; a word's value is the set of its classes. Inflection is written
out when the rules are loaded, typing errors are found through an index of deletions, so that
looking a word up costs one dictionary access and, for a word never seen before, a few more.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from .text import CJK

__all__ = ["Lexicon", "Phrase", "contractions", "inflect", "members"]

Phrase = tuple[tuple[str, ...], int]
"""The words after the first two, and the classes of the whole."""

_MIN_TYPO_LENGTH = 5
_MAX_WORD_LENGTH = 18
_MIN_HEAD_LENGTH = 4
"""Letters of the last part of a German compound ("Krankenhausnetz")."""
_MAX_CACHED_WORDS = 65_536


_ENDINGS: dict[str, dict[str, tuple[str, ...]]] = {
    # Endings after a stem, accents folded. Forms that do not exist match nothing.
    "de": {
        "+": ("", "e", "en", "n", "er", "ern", "s", "es"),
        "~": ("", "e", "en", "er", "es", "em"),
        "*": ("t", "en", "e", "st", "te", "ten", "end", "ende", "enden"),
    },
    "es": {
        "+": ("", "s", "es"),
        "~": ("o", "a", "os", "as"),
        "*": (
            "ar", "a", "an", "o", "amos", "aron", "ando", "ado", "ada", "ados", "adas", "aba",
            "aban", "ara", "aran",
        ),
    },
    "fr": {
        "+": ("", "s", "x"),
        "~": ("", "e", "s", "es"),
        "*": (
            "e", "es", "er", "ent", "ez", "ons", "ant", "ait", "aient", "era", "eront", "ee", "ees",
        ),
    },
}  # fmt: skip


def inflect(entry: str, language: str = "en") -> list[str]:
    """Write out one entry of a word list.

    ``crash*`` is a regular verb (crash, crashes, crashed, crashing), ``server+`` a noun with its
    plural; in a phrase the mark belongs to the word it follows. Other languages put their endings
    (``_ENDINGS``) after a stem, and know ``stem~`` for adjectives and participles: "vole~" is volé,
    volée, volés, volées. Anything else stands for itself.
    """
    marked = re.search(r"(\S+)([*+~])", entry)
    if marked is None:
        return [entry]
    stem, mark = marked.group(1), marked.group(2)
    if language in _ENDINGS:
        forms = [stem + ending for ending in _ENDINGS[language][mark]]
        if language == "de" and mark == "*":
            forms += [f"ge{stem}t{ending}" for ending in _ENDINGS["de"]["~"]]
    else:
        forms = _inflect_english(stem, mark)
    before, after = entry[: marked.start()], entry[marked.end() :]
    return [rest for form in forms for rest in inflect(before + form + after, language)]


def _inflect_english(stem: str, mark: str) -> list[str]:
    if stem.endswith(("s", "x", "z", "ch", "sh")):
        third = stem + "es"
    elif stem.endswith("y") and stem[-2:-1] not in "aeiou":
        third = stem[:-1] + "ies"
    else:
        third = stem + "s"
    forms = [stem, third]
    if mark == "*":
        if stem.endswith("y") and stem[-2:-1] not in "aeiou":
            forms.append(stem[:-1] + "ied")
        else:
            forms.append(stem + ("d" if stem.endswith("e") else "ed"))
        drops = stem.endswith("e") and not stem.endswith(("ee", "oe", "ye"))
        forms.append((stem[:-1] if drops else stem) + "ing")
    return forms


_NOT = re.compile(
    r"\b(?:(ca|wo)n't|(\w+)n't|(cannot|will not)"
    r"|(is|are|was|were|do|does|did|has|have|had|could|would|should|must) not)\b"
)


def contractions(entry: str) -> list[str]:
    """Spellings of a negation: "isn't", "isnt" and "is not" are the same."""
    match = _NOT.search(entry)
    if entry.startswith("not "):
        return [entry, *(verb + entry[3:] for verb in ("isn't", "aren't", "isnt", "arent"))]
    if match is None:
        return [entry]
    irregular, verb, full, separate = match.groups()
    stem = irregular or verb or {"cannot": "ca", "will not": "wo"}.get(full or "") or separate
    spelt_out = {"ca": "cannot", "wo": "will not"}.get(stem, f"{stem} not")
    forms = [f"{stem}n't", f"{stem}nt"]
    if match.group() != entry or stem in ("ca", "wo"):
        # Alone, "is not" is just its "not".
        forms.append(spelt_out)
    return [entry[: match.start()] + form + entry[match.end() :] for form in forms]


def members(classes: int) -> list[int]:
    """Which bits of a class set are there, lowest first."""
    found = []
    while classes:
        lowest = classes & -classes
        found.append(lowest.bit_length() - 1)
        classes ^= lowest
    return found


class Lexicon:
    """Classes of single words and phrases of one language.

    Parameters
    ----------
    entries : mapping of str to int
        Folded words and phrases with their class sets.
    ordinary : iterable of str
        Correct words that look like a misspelt entry ("random", "ransom"): never taken for one.
    compounds : bool
        Whether the language writes compounds as one word, known by its last part.
    """

    def __init__(
        self, entries: Mapping[str, int], ordinary: Iterable[str] = (), compounds: bool = False
    ) -> None:
        self._compounds = compounds
        self.words: dict[str, int] = {}
        self.phrases: dict[str, dict[str, list[Phrase]]] = {}
        scripts: dict[str, int] = {}
        for entry, classes in entries.items():
            if re.search(f"[{CJK}]", entry):
                scripts[entry] = classes
                continue
            first, *rest = entry.split()
            if rest:
                seconds = self.phrases.setdefault(first, {})
                seconds.setdefault(rest[0], []).append((tuple(rest[1:]), classes))
                self.words.setdefault(first, 0)
                for word in rest:
                    self.words.setdefault(word, 0)
            else:
                self.words[entry] = self.words.get(entry, 0) | classes
        for seconds in self.phrases.values():
            for phrases in seconds.values():
                phrases.sort(key=lambda phrase: -len(phrase[0]))
        for word, classes in self.words.items():
            if not classes and "'" in word:
                # Known from a phrase only ("we're starving"): otherwise as its first part.
                self.words[word] = self.words.get(word.split("'")[0], 0)
        self.scripts = scripts
        self.script_starts: dict[str, list[str]] = {}
        for entry in sorted(scripts, key=len, reverse=True):
            self.script_starts.setdefault(entry[0], []).append(entry)
        self._ordinary = frozenset(ordinary)
        self._corrections = self._index_typos()
        self._corrected: dict[str, str] = {}

    def _index_typos(self) -> dict[str, list[str]]:
        index: dict[str, list[str]] = {}
        for word in self.words:
            if not word.isalpha() or not word.isascii():
                continue
            if len(word) == _MIN_TYPO_LENGTH - 1:
                # So short a word is only recognised with two neighbours swapped.
                for i in range(len(word) - 1):
                    index.setdefault(_swap(word, i), []).append(word)
            elif _MIN_TYPO_LENGTH <= len(word) <= _MAX_WORD_LENGTH:
                for i in range(len(word)):
                    index.setdefault(word[:i] + word[i + 1 :], []).append(word)
                index.setdefault(word, []).append(word)
        return index

    def correct(self, word: str) -> str:
        """The entry that ``word`` misspells by one edit or swap; ``word`` itself if there is none.

        The first letter is taken as right, or swapped with the second.
        """
        found = self._corrected.get(word)
        if found is None:
            found = self._search_correction(word)
            if len(self._corrected) >= _MAX_CACHED_WORDS:
                self._corrected.clear()
            self._corrected[word] = found
        return found

    def head(self, word: str) -> str:
        """The entry at the end of a compound ("Nussallergie": allergie), or ``word`` itself."""
        if self._compounds:
            for start in range(3, len(word) - _MIN_HEAD_LENGTH + 1):
                if self.words.get(word[start:]):
                    return word[start:]
        return word

    def _search_correction(self, word: str) -> str:
        if word in self._ordinary or not word.isascii() or not word.isalpha():
            return word
        if not _MIN_TYPO_LENGTH - 1 <= len(word) <= _MAX_WORD_LENGTH + 1:
            return word
        variants = [word, *(word[:i] + word[i + 1 :] for i in range(len(word)))]
        for variant in variants:
            for entry in self._corrections.get(variant, ()):
                if _one_edit_apart(word, entry):
                    return entry
        return word


def _swap(word: str, i: int) -> str:
    return word[:i] + word[i + 1] + word[i] + word[i + 2 :]


def _one_edit_apart(word: str, entry: str) -> bool:
    if len(word) == len(entry):
        wrong = [i for i in range(len(word)) if word[i] != entry[i]]
        if len(wrong) == 1:
            return wrong[0] > 0 and len(entry) >= _MIN_TYPO_LENGTH
        return len(wrong) == 2 and wrong[1] == wrong[0] + 1 and _swap(word, wrong[0]) == entry
    if len(entry) < _MIN_TYPO_LENGTH or word[0] != entry[0]:
        return False
    long, short = (word, entry) if len(word) > len(entry) else (entry, word)
    return any(long[:i] + long[i + 1 :] == short for i in range(1, len(long)))
