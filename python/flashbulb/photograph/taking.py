"""Taking the photograph: the caller's fields first, then an LLM, patterns, a model of spaCy."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Literal

from flashbulb._check import check_optional_text, check_text
from flashbulb._time import Time, to_seconds

from .patterns import find
from .times import find_time, precision

__all__ = ["FIELDS", "Extracted", "Photographer", "Source", "photograph"]

FIELDS = ("who", "what", "when", "where")

Source = Literal["caller", "llm", "pattern", "model"]

MAX_CHARACTERS = 8_000
"""So many of a text are looked at."""

# The labels of spaCy's models that name a person or a place; the first that is there counts.
_ENTITIES = {
    "who": (("PERSON", "PER"), ("ORG",)),
    "where": (("GPE", "LOC", "FAC"),),
}

_log = logging.getLogger("flashbulb")


@dataclass(frozen=True, slots=True)
class Extracted:
    """One field of a photograph, and where it is from.

    Attributes
    ----------
    value : str
        For `when` ISO 8601 text, as precise as the text is, wherever its words could be read.
    source : {"caller", "llm", "pattern", "model"}
    span : (start, end) or None
        Where in the text; None for what the caller said.
    """

    value: str
    source: Source
    span: tuple[int, int] | None = None

    @property
    def precision(self) -> str | None:
        """Of a time: "year", "month", "week", "day", "part of a day", "hour", "minute", "second".

        None for any other value.
        """
        return precision(self.value)


class Photographer:
    """Finds who, what, when and where in a text. Empty is better than wrong.

    Parameters
    ----------
    llm : callable or None
        Called with text and context; answers a mapping, or an object, with some of ``who``,
        ``what``, ``when`` and ``where``. What does not occur in the text is dropped. If it fails,
        that is reported through ``logging`` and the rest goes on without it.
    model : callable or None
        A loaded pipeline of spaCy, asked for persons, organisations and places where the patterns
        found none. Nothing is downloaded.

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
    ) -> None:
        for name, value in (("llm", llm), ("model", model)):
            if value is not None and not callable(value):
                raise TypeError(f"{name} must be callable or None, got {value!r:.80}")
        self._llm = llm
        self._model = model

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
        moment = _moment(created)
        result = {name: Extracted(value, "caller") for name, value in _given(given)}
        for name, value in self._asked(text, context, result):
            span = _place(text, value)
            if name not in result and span is not None:
                said = text[slice(*span)]
                time = find_time(said, moment) if name == "when" else None
                result[name] = Extracted(said if time is None else time.value, "llm", span)
        for name, extracted in _by_patterns(text[:MAX_CHARACTERS], moment):
            result.setdefault(name, extracted)
        for name, extracted in self._modelled(text[:MAX_CHARACTERS], result):
            result.setdefault(name, extracted)
        return {name: result[name] for name in FIELDS if name in result}

    def _asked(
        self, text: str, context: str, known: Mapping[str, Extracted]
    ) -> Iterator[tuple[str, str]]:
        if self._llm is None or len(known) == len(FIELDS):
            return
        try:
            answer = self._llm(text, context)
            values = {
                name: answer.get(name)
                if isinstance(answer, Mapping)
                else getattr(answer, name, None)
                for name in FIELDS
            }
        except Exception as error:
            _log.warning("the LLM's photograph is left out: %s", error or type(error).__name__)
            return
        for name, value in values.items():
            if isinstance(value, str) and value.strip():
                yield name, value.strip()

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
    for name, value in (given or {}).items():
        if name not in FIELDS:
            raise ValueError(f"given must have fields of {', '.join(FIELDS)}, got {name!r:.80}")
        text = check_optional_text(value, name)
        if text is not None:
            yield name, text


def _place(text: str, value: str) -> tuple[int, int] | None:
    """Where a value stands in a text, whatever its case and white space."""
    words = r"\s+".join(map(re.escape, value.split()))
    match = re.search(rf"(?<!\w){words}(?!\w)", text, re.IGNORECASE)
    return None if match is None else match.span()
