"""A text as sentences of classified tokens."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from .lexicon import Lexicon, Phrase
from .rules import RuleSet, split_script
from .text import TOKEN

__all__ = ["MAX_SENTENCE_TOKENS", "Sentence", "sentences"]

MAX_SENTENCE_TOKENS = 64
"""A longer sentence is cut: this bounds the work per token, and so the time per text."""

_VERB_REACH = 3
"""Tokens from "not" to its verb; from "nobody", or to a German "nicht", ``_FAULT_REACH``."""
_FAULT_REACH = 6

_CLAUSE_MARKS = frozenset(",;:()—–|\n、[]{}<>")


@dataclass(slots=True)
class Sentence:
    """Tokens of one sentence; all lists have one item per token (a phrase is one token)."""

    classes: list[int] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    """Place in tokens; a mark between two clauses counts as one more."""
    clauses: list[int] = field(default_factory=list)
    segments: list[int] = field(default_factory=list)
    quoted: list[bool] = field(default_factory=list)
    used: set[int] = field(default_factory=set)
    """Negators that belong to a fault ("cannot check out") and so negate nothing."""
    opening: int = 0
    """The first token that is not a label in front ("URGENT", "priority=1")."""
    labels: int = 0
    """The classes of labels."""
    question: bool = False
    known: int = 0
    """Tokens that the rule file knows."""
    unknown: int = 0
    present: int = 0
    """All classes of the sentence."""

    def clause_start(self, index: int) -> int:
        """The first token of the clause of token ``index``, labels in front of it skipped."""
        start = index
        while start and self.clauses[start - 1] == self.clauses[index]:
            start -= 1
        while start < index and self.classes[start] & self.labels:
            start += 1
        return start


Raw = tuple[str, str, int, int]
"""Kind, folded text, start and end of a token."""
Token = tuple[int, int, int, int, int, int, bool]
"""An item of each list of a :class:`Sentence`, in their order."""


def sentences(text: str, rules: RuleSet) -> Iterator[Sentence]:
    """Divide folded ``text``; linear in its length."""
    raw: list[Raw] = []
    for match in TOKEN.finditer(text):
        kind = match.lastgroup or "mark"
        start, end = match.span()
        if kind != "stop":
            raw.append((kind, match.group(), start, end))
            if len(raw) < MAX_SENTENCE_TOKENS:
                continue
        if raw:
            yield _classify(raw, text, rules, match.group() if kind == "stop" else "", end)
            raw = []
    if raw:
        yield _classify(raw, text, rules, "", len(text))


def _language(raw: list[Raw], rules: RuleSet) -> Lexicon:
    """The lexicon of the language with most of its common words in the sentence."""
    hints = rules.languages
    counts, words = 0, 0
    for kind, word, _, _ in raw:
        if kind == "word":
            words += 1
            hint = hints.get(word)
            if hint is None and "'" in word:
                hint = hints.get(word.split("'")[-1])
            counts += hint or 0
    if counts:
        best = max(range(len(rules.lexicons)), key=lambda i: (counts >> 8 * i) & 0xFF)
        if (counts >> 8 * best) & 0xFF >= (2 if words > 3 else 1):
            return rules.lexicons[best]
    return rules.lexicons[0]


def _classify(raw: list[Raw], text: str, rules: RuleSet, stop: str, stop_end: int) -> Sentence:
    sentence = Sentence(question="?" in stop)
    lexicon = _language(raw, rules)
    words, phrases = lexicon.words, lexicon.phrases
    english = lexicon is rules.lexicons[0]
    contrast = rules.classes.get("contrast", 0)
    coordinator = rules.classes.get("coordinator", 0)
    negator = rules.classes.get("negator", 0)
    resolved = rules.classes.get("resolved", 0)
    past, fiction = rules.classes.get("past", 0), rules.classes.get("fiction", 0)
    # Spelling is corrected first, so that phrases may be misspelt too.
    spelt = [
        word if kind != "word" or word in words else _spell(word, lexicon, english)
        for kind, word, _, _ in raw
    ]
    quoted = _quotations(raw, text, stop_end)
    values: set[int] = set()
    tokens: list[Token] = []
    position = clause = segment = 0
    index, count = 0, len(raw)
    while index < count:
        kind, word, start, end = raw[index]
        if kind == "mark":
            if word in _CLAUSE_MARKS:
                clause += 1
                position += 1
                if word == ";":
                    segment += 1
            index += 1
            continue
        if kind == "cjk":
            for piece_start, piece_end, classes in split_script(lexicon, word):
                if classes & contrast:
                    segment += 1
                    clause += 1
                place = start + piece_start, start + piece_end
                tokens.append((classes, *place, position, clause, segment, quoted[index]))
                sentence.known += classes > 0
                position += 1
            index += 1
            continue
        classes, length = 0, 1
        if index and raw[index - 1][1] == "=":
            values.add(start)
        if kind == "number" and _counts_nothing(raw, index, text):
            classes = negator
        elif kind == "number" and _is_past_year(raw, index):
            classes = fiction if word < "1950" else past
        else:
            known = words.get(spelt[index])
            classes = known or 0
            phrase = _phrase(phrases, spelt, index) if spelt[index] in phrases else None
            if phrase is not None:
                following = _phrase(phrases, spelt, index + 1)
                # Of two that overlap, the longer one ("is [out of hospital]"), or what is over
                # ("it [is back]").
                over = following is not None and following[1] & resolved
                if following is None or (following[0] <= phrase[0] and not over) or phrase[0] > 2:
                    length, classes = phrase
                    end = raw[index + length - 1][3]
            if kind == "word":
                sentence.known += known is not None
                sentence.unknown += known is None
        if kind == "number" and not classes and not tokens:
            # "2025-01-01 ERROR ...": the time is not the first word.
            index += 1
            continue
        if classes & contrast and not _parenthetical(raw, index, words, rules):
            segment += 1
            clause += 1
        elif classes & coordinator:
            clause += 1
        tokens.append((classes, start, end, position, clause, segment, quoted[index]))
        position += 1
        index += length
        # "priority=1" is a clause of its own.
        clause += start in values
    if tokens:
        (
            sentence.classes,
            sentence.starts,
            sentence.ends,
            sentence.positions,
            sentence.clauses,
            sentence.segments,
            sentence.quoted,
        ) = map(list, zip(*tokens, strict=True))
    label = rules.classes.get("urgent", 0) | rules.classes.get("steering", 0)
    sentence.labels = label
    last = len(sentence.classes) - 1
    while sentence.opening < last and (
        sentence.classes[sentence.opening] & label or sentence.starts[sentence.opening] in values
    ):
        sentence.opening += 1
    _derive_faults(sentence, rules)
    for classes in sentence.classes:
        sentence.present |= classes
    return sentence


def _phrase(
    phrases: dict[str, dict[str, list[Phrase]]], words: list[str], index: int
) -> tuple[int, int] | None:
    """Length and classes of the longest phrase that begins at ``index``."""
    seconds = phrases.get(words[index]) if index + 1 < len(words) else None
    if seconds is None:
        return None
    for tail, classes in seconds.get(words[index + 1], ()):
        if not tail or tuple(words[index + 2 : index + 2 + len(tail)]) == tail:
            return 2 + len(tail), classes
    return None


def _counts_nothing(raw: list[Raw], index: int, text: str) -> bool:
    """Whether the token is the zero of "0 errors", and not of "score=0" or "score: 0"."""
    start = raw[index][2]
    return (
        raw[index][1] == "0"
        and index + 1 < len(raw)
        and raw[index + 1][0] == "word"
        and text[max(0, start - 2) : start].strip()[-1:] not in ("=", ":", '"')
    )


def _is_past_year(raw: list[Raw], index: int) -> bool:
    """Whether the token is the year of "in 1912"."""
    _, word, _, _ = raw[index]
    return (
        len(word) == 4
        and word.isdecimal()
        and "1000" <= word <= "2015"
        and index > 0
        and raw[index - 1][1] in ("in", "of", "since")
    )


def _parenthetical(raw: list[Raw], index: int, words: dict[str, int], rules: RuleSet) -> bool:
    """Whether a contrast stands inside a clause: "the account, however, was emptied"."""
    return (
        index + 2 < len(raw)
        and raw[index - 1][1] == raw[index + 1][1] == ","
        and bool(words.get(raw[index + 2][1], 0) & rules.classes.get("asking", 0))
    )


def _spell(word: str, lexicon: Lexicon, english: bool) -> str:
    if word in lexicon.words:
        return word
    if "'" in word:
        parts = word.split("'")
        # English: "prod's"; French: "l'incendie", "n'est".
        base = parts[0] if english or len(parts[0]) > 2 else parts[-1]
        return base if base in lexicon.words else lexicon.correct(base) if english else base
    return lexicon.correct(word) if english else lexicon.head(word)


def _quotations(raw: list[Raw], text: str, stop_end: int) -> list[bool]:
    """Which tokens stand in quotation marks that are closed again."""
    quoted = [False] * len(raw)
    opened: dict[str, int] = {}
    for index, (kind, mark, start, end) in enumerate(raw):
        if kind != "mark" or mark not in "\"'":
            continue
        if mark in opened:
            if mark == "'" and text[end : end + 1].isalnum():
                continue
            first = opened.pop(mark)
            quoted[first:index] = [True] * (index - first)
        elif not text[max(0, start - 1) : start].isalnum() and (
            mark == '"' or not text[end : end + 1].isspace()
        ):
            # An apostrophe after a letter ("patients' records") opens nothing; French quotation
            # marks stand apart from what they hold.
            opened[mark] = index
    for mark, first in opened.items():
        if text[stop_end : stop_end + 1] == mark:
            quoted[first:] = [True] * (len(raw) - first)
    return quoted


def _derive_faults(sentence: Sentence, rules: RuleSet) -> None:
    """Turn "cannot ... log in", "does not ... open" into a fault at the verb.

    A prohibition ("do not open the box") is none.
    """
    able = rules.classes.get("able", 0)
    negator = rules.classes.get("negator", 0)
    cannot = rules.classes.get("cannot", 0)
    prohibits = rules.classes.get("prohibition", 0)
    fault = rules.classes.get("fault", 0)
    crowd = rules.classes.get("crowd", 0)
    verb_second = rules.classes.get("verb_second", 0)
    classes, clauses = sentence.classes, sentence.clauses
    for index, own in enumerate(classes):
        if not own & (able | verb_second):
            continue
        if own & verb_second:
            # German: "das Tor öffnet sich nicht".
            for after in range(index + 1, min(index + 1 + _FAULT_REACH, len(classes))):
                if clauses[after] != clauses[index]:
                    break
                if classes[after] & negator:
                    if not _denies_harm(sentence, after, rules):
                        classes[index] |= fault
                        sentence.used.add(after)
                    break
        if not own & able:
            continue
        for before in range(index - 1, max(-1, index - 1 - _FAULT_REACH), -1):
            if index - before > _VERB_REACH and not classes[before] & crowd:
                continue
            if clauses[before] != clauses[index]:
                break
            if classes[before] & able and not classes[before] & cannot:
                break
            if classes[before] & (negator | cannot):
                at_start = before == 0 or clauses[before - 1] != clauses[before]
                if not (classes[before] & prohibits and at_start):
                    classes[index] |= fault
                    sentence.used.add(before)
                break


def _denies_harm(sentence: Sentence, negator: int, rules: RuleSet) -> bool:
    """German: whether the word negates what its clause ends with: "gingen nicht [verloren]"."""
    harms = 0
    for name in ("harm", "destroyed", "exposed"):
        harms |= rules.classes.get(name, 0)
    return any(
        sentence.classes[i] & harms and sentence.clauses[i] == sentence.clauses[negator]
        for i in range(negator + 1, len(sentence.classes))
    )
