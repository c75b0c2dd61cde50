"""Taking the photograph: the caller's fields first, then an LLM, patterns, a model of spaCy."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any, NamedTuple

from flashbulb._check import check_limit, check_mapping, check_optional_text, check_text
from flashbulb._time import Time, to_seconds
from flashbulb.arousal.asking import (
    AT_A_TIME,
    Circuit,
    NoAnswer,
    TimeLimit,
    at_a_time,
    within,
)
from flashbulb.arousal.llm import asking
from flashbulb.arousal.replies import parse_photograph

from .extracted import FIELDS, PRECISIONS, Extracted
from .patterns import find
from .times import find_time

__all__ = ["Event", "Photographer", "photograph"]

MAX_CHARACTERS = 8_000
"""So many of a text are looked at."""

_MOST_OF_WHAT = 200
"""Characters of what happened, as an LLM says it."""
_MOST_WORDS = 10
"""Of who, when and where."""

# The labels of spaCy's models that name a person or a place; the first that is there counts.
_ENTITIES = {
    "who": (("PERSON", "PER"), ("ORG",)),
    "where": (("GPE", "LOC", "FAC"),),
}

_log = logging.getLogger("flashbulb")


class Event(NamedTuple):
    """What is to be photographed; as the arguments of :meth:`Photographer.photograph`."""

    text: str
    created: Time
    context: str
    given: Mapping[str, str | None]


class Photographer:
    """Finds who, what, when and where in a text. Empty is better than wrong.

    Parameters
    ----------
    llm : callable or None
        Called with text and context, or with the text if it takes no more; may be async. Answers
        a mapping, or an object, with some of ``who``, ``what``, ``when`` and ``where``, or a str
        that holds such a mapping as JSON. What does not occur in the text is dropped. If it fails,
        or answers anything else, that is reported through ``logging``, and the rest goes on
        without it. About several texts of a batch it is asked at a time, from several threads.
    model : callable or None
        A loaded pipeline of spaCy, asked for persons, organisations and places where the patterns
        found none. Nothing is downloaded.
    deadline : float
        Seconds for the LLM's answer. After five failures in a row it is not asked for a while.

    Notes
    -----
    Patterns know mail addresses, handles, titles with names and members of the family (who);
    tickets, advisories, errors and versions (what); dates and times, and relative ones against the
    moment of writing (when); hosts, services, addresses, paths and numbered places (where). Names
    of persons and towns need an LLM or a model.
    """

    def __init__(
        self,
        llm: Callable[[str, str], Any] | None = None,
        model: Callable[[str], Any] | None = None,
        *,
        deadline: float = 20.0,
    ) -> None:
        for name, value in (("llm", llm), ("model", model)):
            if value is not None and (not callable(value) or isinstance(value, type)):
                raise TypeError(f"{name} must be callable or None, got {value!r:.80}")
        seconds = check_limit(deadline, "deadline")
        if seconds is None or not seconds > 0:
            raise ValueError(f"deadline must be a number of seconds above 0, got {deadline!r}")
        self._llm = None if llm is None else asking(llm)
        self._model = model
        self._deadline = seconds
        self._circuit = Circuit()

    def photograph(
        self,
        text: str,
        *,
        created: Time,
        context: str = "",
        given: Mapping[str, str | None] | None = None,
    ) -> dict[str, Extracted]:
        """The fields that are known of a text, by name.

        Parameters
        ----------
        created : time
            When it was written: "last night" is the night before. Times of day without a zone are
            taken to be in the zone of `created`, UTC for a number.
        context : str
            For the LLM.
        given : dict
            Fields that the caller knows; never overwritten.
        """
        text = check_text(text, "text", empty=True)
        check_text(context, "context", empty=True)
        return self.take([Event(text, created, context, {} if given is None else given)])[0]

    def take(self, events: Sequence[Event]) -> list[dict[str, Extracted]]:
        """As :meth:`photograph`, of several events; the LLM is asked about some at a time."""
        known = [
            {name: Extracted(value, "caller") for name, value in _given(event.given)}
            for event in events
        ]
        answers: list[Mapping[str, str]] = [{}] * len(events)

        def ask(i: int) -> None:
            answers[i] = self._asked(events[i].text, events[i].context)

        if self._llm is not None:
            unknown = [i for i in range(len(events)) if len(known[i]) < len(FIELDS)]
            at_a_time(AT_A_TIME, ask, unknown)
        return [self._completed(*each) for each in zip(events, known, answers, strict=True)]

    def _completed(
        self, event: Event, result: dict[str, Extracted], answer: Mapping[str, str]
    ) -> dict[str, Extracted]:
        """What the caller said, then the LLM, then patterns, then the model."""
        text, moment = event.text, _moment(event.created)
        found = dict(_by_patterns(text[:MAX_CHARACTERS], moment))
        for name, value in answer.items():
            span = _place(text, value)
            if name not in result and span is not None and _is_short(name, text, span):
                said = text[slice(*span)]
                time = find_time(said, moment) if name == "when" else None
                extracted = Extracted(said if time is None else time.value, "llm", span)
                if name not in found or not _is_vaguer(name, extracted, found[name]):
                    result[name] = extracted
        for name, extracted in found.items():
            result.setdefault(name, extracted)
        for name, extracted in self._modelled(text[:MAX_CHARACTERS], result):
            result.setdefault(name, extracted)
        return {name: result[name] for name in FIELDS if name in result}

    def _asked(self, text: str, context: str) -> dict[str, str]:
        """What the LLM says; nothing if it fails, which is reported."""
        llm = self._llm
        assert llm is not None
        try:
            self._circuit.enter()
        except NoAnswer as error:
            _log.debug("the LLM's photograph is left out: %s", error)
            return {}
        try:
            limit = TimeLimit(self._deadline)
            values = within(limit, lambda: parse_photograph(llm(text, context)))
        except Exception as error:
            self._circuit.failed()
            _log.warning("the LLM's photograph is left out: %s", error or type(error).__name__)
            return {}
        except BaseException:
            self._circuit.left()
            raise
        self._circuit.succeeded()
        return {name: value.strip() for name, value in values.items() if value.strip()}

    def _modelled(
        self, text: str, known: Mapping[str, Extracted]
    ) -> Iterator[tuple[str, Extracted]]:
        if self._model is None or all(name in known for name in _ENTITIES):
            return
        try:
            entities = list(self._model(text).ents)
        except Exception as error:
            _log.warning("the model's photograph is left out: %s", error or type(error).__name__)
            return
        for name, groups in _ENTITIES.items():
            for labels in groups:
                for entity in entities:
                    if entity.label_ in labels:
                        span = (int(entity.start_char), int(entity.end_char))
                        yield name, Extracted(text[slice(*span)], "model", span)


def photograph(
    text: str, *, created: Time, llm: Callable[[str, str], Any] | None = None
) -> dict[str, Extracted]:
    """Who, what, when and where of a text; see :class:`Photographer`."""
    return Photographer(llm).photograph(text, created=created)


def _by_patterns(text: str, created: datetime) -> Iterator[tuple[str, Extracted]]:
    """What patterns find, none in the place of another: the surest to tell apart first."""
    taken = []
    time = find_time(text, created)
    if time is not None:
        taken.append((time.start, time.end))
        yield "when", Extracted(time.value, "pattern", taken[0])
    for name in ("where", "who", "what"):
        span = find(name, text, taken)
        if span is not None:
            taken.append(span)
            yield name, Extracted(text[slice(*span)], "pattern", span)


def _moment(created: Time) -> datetime:
    seconds = to_seconds(created, "created")
    if isinstance(created, datetime):
        return created
    return datetime.fromtimestamp(seconds, timezone.utc)


def _given(given: Mapping[str, str | None] | None) -> Iterator[tuple[str, str]]:
    for name, value in ({} if given is None else check_mapping(given, "given")).items():
        if name not in FIELDS:
            raise ValueError(f"given must have fields of {', '.join(FIELDS)}, got {name!r:.80}")
        text = check_optional_text(value, name)
        if text is not None:
            yield name, text


def _is_short(name: str, text: str, span: tuple[int, int]) -> bool:
    """Whether a value is as long as one may be; only what happened may be all of a text."""
    said = text[slice(*span)]
    if name == "what":
        return len(said) <= _MOST_OF_WHAT
    words = re.findall(r"\w+", said)
    return len(words) <= _MOST_WORDS and len(words) < max(2, len(re.findall(r"\w+", text)))


def _is_vaguer(name: str, said: Extracted, found: Extracted) -> bool:
    """Whether what an LLM says tells less than what patterns found."""
    if name == "when":
        return PRECISIONS.index(said.precision) < PRECISIONS.index(found.precision)
    if said.span is None or found.span is None or said.span == found.span:
        return False
    return found.span[0] <= said.span[0] and said.span[1] <= found.span[1]


def _place(text: str, value: str) -> tuple[int, int] | None:
    """Where a value stands in a text, whatever its case and white space."""
    words = r"\s+".join(map(re.escape, value.split()))
    match = re.search(rf"(?<!\w){words}(?!\w)", text, re.IGNORECASE)
    return None if match is None else match.span()
