"""The rules: a file of word classes, patterns over them and scopes, and the engine that runs it.

A text is cut into sentences, each sentence into tokens with classes. A rule names two or three
classes that must lie close together ("system" and "down"), in one segment: the stretch between
two contrasts ("but", "except", ";"). A scope (negated, resolved, quoted ...) caps what the rule
is worth. The score is that of the strongest evidence, so that length does not matter.

Everything is linear in the length of the text: segments have a bounded length, and so has the
work on each.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any

from flashbulb._check import check_file, check_str

from .lexicon import Lexicon, contractions, inflect, members
from .text import CJK, fold

# The standard library has it from Python 3.11 on.
_toml: Any = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")

__all__ = ["Rule", "RuleSet"]

_CONTEXT = ("events", "labels", "frames", "denied")
_SENTENCE = re.compile(r"[^.!?;\n。！？]+")
_ARTICLES = r"\W*(?:(?:an?|the|my|our|this is an?|from|ein|eine|un|una|une|le|la|el)\s+)*"
_SHARED = 2
"""An event of fewer words may be named by chance."""
_TABLES = frozenset(("words", "languages", "scopes", "whole", "context", "rule"))
_RULE_FIELDS = {
    "name",
    "weight",
    "parts",
    "within",
    "ordered",
    "start",
    "unless",
    "group",
    "immune",
    "confidence",
}


@dataclass(frozen=True, slots=True)
class Rule:
    """Classes that mean something when they stand together."""

    name: str
    weight: float
    parts: tuple[int, ...]
    """A class set each; a token of any of its classes will do."""
    within: int = 8
    """Largest distance in tokens between the first and the last part."""
    ordered: bool = False
    """The parts must come in this order."""
    start: bool = False
    """The first part must be the first word of its clause."""
    unless: int = 0
    """Classes that silence the rule in a clause it touches."""
    group: str = "fact"
    """technical, person or fact: some scopes only know some groups."""
    immune: frozenset[str] = frozenset()
    """Scopes that do not touch this rule."""
    confidence: float | None = None
    """How sure the rules are where this one decides, untouched; None: by its weight."""

    @property
    def needed(self) -> int:
        """Every class that some part asks for."""
        union = 0
        for part in self.parts:
            union |= part
        return union


class RuleSet:
    """A compiled rule file; immutable, and safe to share between threads.

    Parameters
    ----------
    document : mapping
        A parsed rule file; see the comments in ``data/rules.toml`` for its form.
    ordinary : iterable of str
        Correct words that must not be taken for a misspelt word of the file.

    Raises
    ------
    ValueError
        When the document names an unknown class, scope or field, a number is out of range, or a
        value of another kind than it must be.
    """

    def __init__(self, document: Mapping[str, Any], ordinary: frozenset[str] = frozenset()) -> None:
        _check_form(document)
        unknown = set(document) - _TABLES
        if unknown:
            raise ValueError(f"the rule file has unknown entries {sorted(unknown)}")
        words: Mapping[str, Mapping[str, str]] = document.get("words", {})
        if "en" not in words:
            raise ValueError("a rule file needs the table [words.en]")
        names = sorted({name for table in words.values() for name in table})
        self.classes: dict[str, int] = {name: 1 << i for i, name in enumerate(names)}
        self.caps: dict[str, float] = {
            name: _unit(value, f"scopes.{name}")
            for name, value in document.get("scopes", {}).items()
        }
        self.rules: tuple[Rule, ...] = tuple(
            self._rule(entry) for entry in document.get("rule", [])
        )
        self.needed = 0
        for rule in self.rules:
            self.needed |= rule.needed
        whole = document.get("whole", [])
        self._whole = self.class_set("|".join(whole)) if whole else 0
        self._inherited = self.needed & ~self._scope_classes()
        self.lexicons, self.languages = self._lexicons(
            words, document.get("languages", {}), ordinary
        )
        context = document.get("context", {})
        if set(context) - set(_CONTEXT):
            raise ValueError(f"[context] has {', '.join(_CONTEXT)}, got {sorted(context)}")
        self._events, self._labels, self._frames, self._denied = (
            _any_of(context.get(name, "")) for name in _CONTEXT
        )
        self._candidates: dict[int, tuple[Rule, ...]] = {}
        # By each class of their first part.
        self._beginning: dict[int, list[int]] = {}
        for place, rule in enumerate(self.rules):
            for number in members(rule.parts[0]):
                self._beginning.setdefault(number, []).append(place)

    @classmethod
    def load(cls, path: str | Path) -> RuleSet:
        """Read a rule file.

        Raises
        ------
        OSError, ValueError
            When it cannot be read, is no TOML, or is no rule file; names it, and the place.
        """
        source = Path(check_file(path))
        try:
            return cls(_toml.loads(source.read_text(encoding="utf-8")), _ordinary_words())
        except ValueError as error:
            raise ValueError(f"rule file {source}: {error}") from error

    @classmethod
    @cache
    def default(cls) -> RuleSet:
        """The rules that come with Flashbulb."""
        text = _data_file("rules.toml")
        return cls(_toml.loads(text), _ordinary_words())

    def is_unreal(self, context: str, said: str = "") -> bool:
        """Whether a folded context tells, and does not deny, that its text is no event.

        It names an event that is none ("fire drill at ten"), or says what the text is: with a
        label that it begins with ("scene from ..."), a frame that ends in a colon ("translate
        this:") or is all of it ("fiction"), or one that says again what is `said`, the folded
        words of the event (two at least). A mere mention of a test or a joke tells nothing.
        """
        check_str(context, "context")
        check_str(said, "said")
        event = _content(said)
        opens = context.rstrip().endswith(":")
        pieces = _SENTENCE.findall(context.rstrip())
        for place, piece in enumerate(pieces):
            if self._denied.search(piece):
                continue
            if self._events.search(piece):
                return True
            begin = re.match(_ARTICLES, piece)
            start = begin.end() if begin else 0
            if self._labels.match(piece, start):
                return True
            for pattern in (self._labels, self._frames):
                frame = pattern.search(piece)
                if frame is None:
                    continue
                if opens and place == len(pieces) - 1:
                    return True
                rest = f"{piece[: frame.start()]} {piece[frame.end() :]}"
                if frame.start() <= start and not re.search(r"\w", piece[frame.end() :]):
                    return True
                if len(event) >= _SHARED and event <= _content(rest):
                    return True
        return False

    def class_set(self, names: str) -> int:
        """The class set of ``"system|device"``; a name in no table is an error."""
        union = 0
        for name in names.split("|"):
            if name not in self.classes:
                raise ValueError(f"unknown word class {name!r} in the rule file")
            union |= self.classes[name]
        return union

    def candidates(self, present: int) -> tuple[Rule, ...]:
        """The rules whose parts are all found among the classes ``present``."""
        present &= self.needed
        found = self._candidates.get(present)
        if found is None:
            begun = {i for number in members(present) for i in self._beginning.get(number, ())}
            found = tuple(
                rule
                for rule in map(self.rules.__getitem__, sorted(begun))
                if all(part & present for part in rule.parts)
            )
            if len(self._candidates) >= 4096:
                self._candidates.clear()
            self._candidates[present] = found
        return found

    def _scope_classes(self) -> int:
        """Classes that act on their neighbours: a phrase never has them from one of its words."""
        union = 0
        for name in ("negator", "cannot", "able", "prohibition", "forbid", "crowd", "nobody"):
            union |= self.classes.get(name, 0)
        return union

    def _rule(self, entry: Mapping[str, Any]) -> Rule:
        name = entry.get("name", "?")
        unknown = set(entry) - _RULE_FIELDS
        if unknown:
            raise ValueError(f"rule {name!r} has unknown fields {sorted(unknown)}")
        if not entry.get("parts"):
            raise ValueError(f"rule {name!r} needs at least one part")
        immune = frozenset(entry.get("immune", ()))
        if immune - set(self.caps):
            raise ValueError(f"rule {name!r}: unknown scopes {sorted(immune - set(self.caps))}")
        unless, confidence = entry.get("unless", []), entry.get("confidence")
        return Rule(
            name=name,
            weight=_unit(entry.get("weight"), f"weight of rule {name!r}"),
            parts=tuple(self.class_set(part) for part in entry["parts"]),
            within=int(entry.get("within", 8)),
            ordered=bool(entry.get("ordered", False)),
            start=bool(entry.get("start", False)),
            unless=self.class_set("|".join(unless)) if unless else 0,
            group=entry.get("group", "fact"),
            immune=immune,
            confidence=None if confidence is None else _unit(confidence, f"confidence of {name!r}"),
        )

    def _lexicons(
        self,
        words: Mapping[str, Mapping[str, str]],
        languages: Mapping[str, str],
        ordinary: frozenset[str],
    ) -> tuple[list[Lexicon], dict[str, int]]:
        """One lexicon per language (English first), and the words that tell languages apart."""
        english = self._entries(words["en"], "en") | self._entries(words.get("cjk", {}), "en")
        lexicons = [Lexicon(english, ordinary)]
        hints = dict.fromkeys(fold(languages.get("en", "")).replace(",", " ").split(), 1)
        for name, table in words.items():
            if name in ("en", "cjk"):
                continue
            signs = set(fold(languages.get(name, "")).replace(",", " ").split())
            if not signs:
                raise ValueError(f"[words.{name}] needs its common words in [languages]")
            own = self._entries(table, name)
            # A common word of the language hides the English word it looks like ("die", "son").
            shared = {e: c for e, c in english.items() if e.split()[0] not in signs}
            lexicons.append(Lexicon(dict.fromkeys(signs, 0) | shared | own, compounds=name == "de"))
            # Words of the language tell it apart too, unless they are English as well.
            telling = {word for word in own if len(word) > 3 and word not in english}
            for sign in signs | telling:
                hints[sign] = hints.get(sign, 0) | (1 << (8 * (len(lexicons) - 1)))
        return lexicons, hints

    def _entries(self, table: Mapping[str, str], language: str) -> dict[str, int]:
        entries: dict[str, int] = {}
        for name, listing in table.items():
            bit = self.classes[name]
            for raw in re.split(r"[,\n]", listing):
                entry = " ".join(fold(raw).replace("-", " ").split())
                if entry:
                    for inflected in inflect(entry, language):
                        for form in contractions(inflected):
                            entries[form] = entries.get(form, 0) | bit
        able, fault = self.classes.get("able", 0), self.classes.get("fault", 0)
        denies = self.classes.get("negator", 0) | self.classes.get("cannot", 0)
        nobody = self.classes.get("nobody", 0) | self.classes.get("crowd", 0)
        own = dict(entries)
        for entry, classes in own.items():
            if " " in entry and not classes & self._whole:
                words = entry.split()
                parts = list(_parts(words))
                if any(own.get(part, 0) & self._whole for part in parts if " " in part):
                    # "are open to everyone" holds a phrase of its own meaning: words only.
                    parts = words
                for part in parts:
                    entries[entry] |= own.get(part, 0) & self._inherited
                # "no customer", "keine kunden" are of nobody, and negate what follows.
                if len(words) == 2 and classes & nobody:
                    entries[entry] |= own.get(words[0], 0) & self.classes.get("negator", 0)
                # "isn't responding" stands for itself, and is a fault all the same.
                if own.get(words[0], 0) & denies and own.get(words[-1], 0) & able:
                    entries[entry] |= fault
        return entries


def _parts(words: list[str]) -> Iterator[str]:
    """The words and shorter phrases that a phrase is made of."""
    for first in range(len(words)):
        for last in range(first + 1, len(words) + 1):
            if last - first < len(words):
                yield " ".join(words[first:last])


def _content(folded: str) -> set[str]:
    """The longer words of a folded text."""
    return set(re.findall(r"[^\W_]{4,}", folded))


def _any_of(listing: str) -> re.Pattern[str]:
    """A pattern for each of the listed words and phrases; for nothing if there is none."""
    entries = [fold(" ".join(raw.split())) for raw in re.split(r"[,\n]", listing) if raw.strip()]
    # Chinese and Japanese know no space between words.
    whole = [re.escape(e) for e in entries if not re.search(f"[{CJK}]", e)]
    script = [re.escape(e) for e in entries if re.search(f"[{CJK}]", e)]
    return re.compile("|".join([rf"\b(?:{'|'.join(whole) or '(?!)'})\b", *script]))


def _check_form(document: Mapping[str, Any]) -> None:
    """Refuse values of another kind than a rule file has."""
    for name in ("scopes", "languages", "context", "words"):
        table = _kind(document.get(name, {}), Mapping, f"[{name}]")
        for key, value in table.items():
            if name == "words":
                for listed, text in _kind(value, Mapping, f"[words.{key}]").items():
                    _kind(text, str, f"{listed} of [words.{key}]")
            elif name != "scopes":
                _kind(value, str, f"{key} of [{name}]")
    _texts(document.get("whole", []), "whole")
    for rule in _kind(document.get("rule", []), list, "rule"):
        title = f"rule {_kind(rule, Mapping, 'a rule').get('name', '?')!r:.80}"
        for field in ("name", "group"):
            _kind(rule.get(field, ""), str, f"{field} of {title}")
        for field in ("parts", "unless", "immune"):
            _texts(rule.get(field, []), f"{field} of {title}")
        for field, kind in (("within", int), ("ordered", bool), ("start", bool)):
            _kind(rule.get(field, kind()), kind, f"{field} of {title}")


_KINDS = {
    Mapping: "a table",
    list: "a list",
    str: "a text",
    int: "an integer",
    bool: "true or false",
}


def _kind(value: Any, kind: Any, what: str) -> Any:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ValueError(f"{what} must be {_KINDS[kind]}, got {value!r:.80}")
    return value


def _texts(values: object, what: str) -> None:
    for value in _kind(values, list, what):
        _kind(value, str, f"each of {what}")


def _unit(value: object, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0.0 <= value <= 1.0:
        raise ValueError(f"{what} must be a number in [0, 1], got {value!r}")
    return float(value)


def _data_file(name: str) -> str:
    return (files("flashbulb.arousal") / "data" / name).read_text(encoding="utf-8")


def _ordinary_words() -> frozenset[str]:
    text = _data_file("ordinary.txt")
    return frozenset(line for line in text.splitlines() if not line.startswith("#"))


def split_script(lexicon: Lexicon, run: str) -> list[tuple[int, int, int]]:
    """Divide a run of Chinese or Japanese: (start, end, classes), unknown stretches with 0."""
    pieces: list[tuple[int, int, int]] = []
    starts, scripts = lexicon.script_starts, lexicon.scripts
    last = index = 0
    while index < len(run):
        # The longest entry first; a table by first character is faster than one large pattern.
        for entry in starts.get(run[index], ()):
            if run.startswith(entry, index):
                if index > last:
                    pieces.append((last, index, 0))
                last = index + len(entry)
                pieces.append((index, last, scripts[entry]))
                index = last
                break
        else:
            index += 1
    if last < len(run):
        pieces.append((last, len(run), 0))
    return pieces
