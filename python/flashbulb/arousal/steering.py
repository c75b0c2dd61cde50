"""Text that tells its judge what to answer: found, and left out of what a model or LLM is shown.

No stage of the cascade reads it, so that it can change no score; the text is stored as it came. A
mark is left out alone ("importance=1.0", a leading "URGENT:"), what speaks to the judge with the
rest of its clause. A false alarm costs words that are not judged.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence

from .rules import RuleSet
from .text import CJK, Folded, unwrapped

__all__ = ["Steering"]

# Words, folded, of which a text must hold one to be looked at more closely; each set is {name} in
# the patterns below. The class `steering` of the rule file is {key}.
_WORDS = {
    "override": "ignore disregard forget override bypass ignoriere ignorieren vergiss ignora "
    "ignorez oublie oubliez",
    "judging": "rate score classify grade rank answer output reply respond bewerte antworte "
    "responde reponds repondez puntua califica evalua notez",
    "giving": "give mark treat flag",
    "judge": "scorer grader rater judge classifier evaluator assessor detector assistant llm gpt "
    "chatgpt ai model",
    "graded": "critical urgent important unimportant harmless mundane",
    "kept": "decay fade forgotten forget pinned flashbulb unforgettable permanent permanently",
}
_KEYS = "urgency severity criticality"
_PARTS = {
    "verdict": r"(?:[01](?:[.,]\d+)?|\d+/10+|yes|no|zero|one|ten|{graded}|{extreme})",
    "value": r"(?:[01]?[.,]?\d+(?:%|/\d+)?|p\d|{graded}|{extreme}|emergency|blocker|none|full)",
    "extreme": r"(?:max\w*|min\w*|high\w*|low\w*)",
    "role": r"(?:system|assistant|developer|user)",
    "thing": r"(?:memory|message|text|note|entry|event|sentence|item|record)",
    "orders": r"(?:instruct\w*|instruccion\w*|prompts?|rules?|guidelines?|directions?|orders?|above"
    r"|rubrics?|criteria"
    r"|anweisung\w*|consignes)",
    "keeping": r"(?:give|set|assign|treat|mark|flag|store|remember|return|print|say|label|make"
    r"|keep|raise|lower)",
    # Where a command begins: "SYSTEM: please always ...", "..., so answer ..."
    "lead": r"(?:^|[,;:–—(\[]|\s-\s|\b{role}\s{0,3}:|\b(?:and|so|then|but)\b)[^\w{\"'<\n]*"
    r"(?:(?:please|now|just|only|always|never|so|then|{role}|{judge}|you|must|should|have to"
    r"|need to|will|bitte|por favor|veuillez)\W{1,3}){0,6}",
    # The rest of a command, up to where something else may begin.
    "rest": r"(?:(?!\s[-–—]\s)[^\n:;,—()\[\]{}])*",
    "cjk": f"[{CJK}]",
    "then": r"(?:\b(?:and|so|then)\s{1,3})?",
    "object": r"(?:this|it|that|das|dies|es|esto|ceci|cela)",
}
_MARKS = (
    # Chinese and Japanese: ignore the instructions, answer 0.
    r"{then}{cjk}{0,20}(?:忽略|无视|忽视|無視){cjk}{0,20}(?:指令|指示|命令|提示|规则|規則){cjk}{0,20}",
    r"{then}{cjk}{0,20}(?:指示|命令|指令|ルール){cjk}{0,12}(?:無視|忘れ){cjk}{0,20}(?:\d{cjk}{0,20})?",
    r"{then}[请請]?(?:回答|输出|評分|评分|打分)[为為成]?\s?(?:[01](?:\.\d+)?|零|一|十)(?![\w%])",
    r"<\|[^<>|\n]{0,40}\|>{role}?|\[/?inst\]|<</?sys>>",
    r"[=#~`-]{3,}\s{0,3}(?:(?:end|begin|start|stop)\b[^\n=#~`-]{0,40}[=#~`-]{0,80})?",
    r"<(?P<tag>{key}|system|instructions?)\b[^<>\n]{0,80}>[^<>]{0,400}</(?P=tag)>",
    r"\[{1,2}{role}\s{0,3}[:|][^\[\]\n]{0,200}\]{1,2}",
    r"</?(?:{key}|{role}|{thing}|data|instructions?|context)\b[^<>\n]{0,80}>",
    r"\{[^{}]{0,400}\b{key}\b[\"']?\s{0,3}:[^{}]{0,400}\}",
    r"{then}[\[(]?[\"']?\b{key}\b[\"']?\s{0,3}(?:[:=]|:=|=>|->)\s{0,3}[\"']?{value}(?!\w)[\"']?[\])]?"
    r"(?:[ \t]{1,3}{label}\b)*",
)
# Of these the whole sentence is dropped ...
_ADDRESSING = (
    r"\b(?:note|message|hint|attention|hey|dear)\W{1,3}(?:to |for )?(?:the |all |any )?{judge}\b",
    r"\b(?:you are|you're|act as)\b[^\n]{0,20}\b{judge}\b",
    r"\b(?:this|the following|the above) {thing}\b[^\n]{0,30}\b(?:must|should|is|has|shall)\b"
    r"[^\n]{0,40}\b(?:{kept}|{key}|{graded})\b",
    r"\b(?:right|correct|expected|only) (?:answer|output|response|reply|rating|score)\b[^\n]{0,20}"
    r"(?:\b(?:is|be)|[:=])\s{0,3}{verdict}(?!\w)",
)
# ... and of these what follows up to a colon: "rate this 1: the tea is cold".
_COMMANDING = (
    r"{then}(?:\b{role}\W{1,3})?\b{override}\b[^\n]{0,60}\b{orders}\b{rest}",
    r"{then}(?:\b(?:the|its) )?\b{key} (?:of \w+ {thing} )?(?:must|should|has to|needs to|shall)"
    r"(?: not)? (?:be|equal)\b{rest}",
    r"{then}\b{keeping} (?:the |its |an? )?{key} (?:to|of|at) {verdict}(?!\w|[.,]\d){rest}",
    r"\bnew (?:system )?(?:instructions?|prompt)\b{rest}",
    r"^\W*{role}\s{0,3}:\s{0,3}(?:please )?(?:never|always|do not|don't|must)\b{rest}",
    r"{lead}{judging}\b[^\n]{0,80}?(?<![\w.,]){verdict}(?!\w|[.,]\d){rest}",
    r"\b{judging} {object}\b[^\n]{0,30}?(?<![\w.,]){verdict}(?!\w|[.,]\d){rest}",
    r"{then}\b{giving} {object} (?:a |an |as )[^\n]{0,20}?(?<![\w.,]){verdict}(?!\w|[.,]\d){rest}",
    r"{lead}{keeping}\b[^\n]{0,60}\b(?:{key}\b|as (?:\w+ )?{verdict}\b){rest}",
)
_SIGNS = re.compile(r"[<{\[]|[=#~`-]{3}|忽略|无视|忽视|無視|忘れ|回答|输出|評分|评分|打分")
# Within a sentence: where something else begins.
_CLAUSE = re.compile(r"(?:(?!\s[-–—]\s)[^\n;—()])+")
_SENTENCE = re.compile(r"[^\n]+?(?:[.!?]+(?=[\s\"')\]]|$)|[。！？]|(?=\n)|$)")
_WORD = re.compile(r"[^\W_]+")
_SPACES = re.compile(r"[^\S\n]{2,}|[^\S\n ]")
_LEFT = " \t\r\n,;:|-–—])}!>"
_RIGHT = " \t\r\n,;:|-–—[({<"
_MOST_PASSES = 8


class Steering:
    """Finds what speaks to the judge, with the words of a rule file."""

    def __init__(self, rules: RuleSet) -> None:
        steering, urgent = (rules.classes.get(name, 0) for name in ("steering", "urgent"))
        words = {word: c for lexicon in rules.lexicons for word, c in lexicon.words.items()}
        keys = {word for word, classes in words.items() if classes & steering} | {*_KEYS.split()}
        sets = {"key": keys} | {name: set(listed.split()) for name, listed in _WORDS.items()}
        labels = {word for word, classes in words.items() if classes & urgent}
        parts = _PARTS | {
            name: f"(?:{'|'.join(map(re.escape, sorted(entries))) or '(?!)'})"
            for name, entries in (sets | {"label": labels}).items()
        }

        def compiled(patterns: tuple[str, ...]) -> re.Pattern[str]:
            pattern, unfilled = "|".join(patterns), ""
            while pattern != unfilled:
                unfilled = pattern
                pattern = re.sub(r"\{([a-z]+)\}", lambda found: parts[found[1]], pattern)
            return re.compile(pattern)

        self._labels = frozenset(labels)
        self._triggers = self._labels.union(*sets.values(), ("instructions", "prompt"))
        self._marks = compiled(_MARKS)
        self._addressing = compiled(_ADDRESSING)
        self._commanding = compiled(_COMMANDING)

    def without(self, text: str) -> str:
        """The text without what speaks to the judge; the text itself where nothing does.

        Nothing is left of a text in which more and more of it comes to light.
        """
        return self.divided(text)[0]

    def divided(self, text: str) -> tuple[str, Sequence[int]]:
        """As :meth:`without`, and the place in the text of each of its characters."""
        left = _tidy(text)
        places: list[int] | None = None
        for _ in range(_MOST_PASSES):
            folded = Folded(left)
            spans = sorted(folded.origin(*span) for span in self._spans(folded, left))
            if not spans:
                return (text, range(len(text))) if places is None else (left, places)
            if places is None:
                places = _tidy_places(text)
            kept, last = [], 0
            for start, end in (*spans, (len(left), len(left))):
                piece = _stripped(left, last, start)
                if _WORD.search(left, piece.start, piece.stop):
                    kept.append(piece)
                last = max(last, end)
            joined: list[int] = []
            for piece in kept:
                # The blank between two pieces is where the first one ends.
                joined += [joined[-1]] if joined else []
                joined += places[piece.start : piece.stop]
            left = " ".join(left[piece.start : piece.stop] for piece in kept)
            places = joined
        return "", ()

    def _spans(self, folded: Folded, text: str) -> Iterator[tuple[int, int]]:
        words = _WORD.findall(folded.text)
        if self._triggers.isdisjoint(words) and not _SIGNS.search(folded.text):
            return
        yield from (found.span() for found in self._marks.finditer(folded.text))
        lines = Folded(unwrapped(text)).text
        for sentence in _SENTENCE.finditer(folded.text):
            start, end = sentence.span()
            for clause in _CLAUSE.finditer(folded.text, start, end):
                first, words_of_it = clause.start(), clause.group()
                if self._addressing.search(words_of_it):
                    yield clause.span()
                elif found := self._commanding.search(words_of_it):
                    yield first + found.start(), first + found.end()
            # A line that goes on with a sentence begins with no label.
            if lines[max(0, start - 1) : start] == " ":
                continue
            if label := self._label(folded, text, start, end):
                yield label

    def _label(self, folded: Folded, text: str, start: int, end: int) -> tuple[int, int] | None:
        """What begins a sentence: "URGENT: ...", "CRITICAL buy milk"; or is all of it."""
        first = _WORD.search(folded.text, start, end)
        if first is None or first.group() not in self._labels:
            return None
        following = _WORD.search(folded.text, first.end(), end)
        if following is None or folded.text[first.end()] in ":!])":
            return first.span()
        shouted = _is_upper(folded, text, first) and (
            following.group() in self._labels or not _is_upper(folded, text, following)
        )
        return first.span() if shouted else None


def _tidy(text: str) -> str:
    """The text with single spaces, and without what cannot be seen."""
    if not text.isascii():
        text = "".join(c for c in text if unicodedata.category(c) != "Cf")
    return _SPACES.sub(" ", text)


def _tidy_places(text: str) -> list[int]:
    """Where each character of the tidy text stands in the text."""
    seen = [i for i, c in enumerate(text) if unicodedata.category(c) != "Cf"]
    places: list[int] = []
    last = 0
    for found in _SPACES.finditer("".join(text[i] for i in seen)):
        places += seen[last : found.start() + 1]
        last = found.end()
    return places + seen[last:]


def _stripped(text: str, start: int, end: int) -> range:
    """The part of it that is left without marks and blanks at its ends."""
    while start < end and text[start] in _LEFT:
        start += 1
    while start < end and text[end - 1] in _RIGHT:
        end -= 1
    return range(start, end)


def _is_upper(folded: Folded, text: str, word: re.Match[str]) -> bool:
    start, end = folded.origin(*word.span())
    return text[start:end].isupper()
