"""One field of a photograph, and how a store keeps those that were extracted."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from flashbulb._check import to_json

__all__ = ["FIELDS", "PRECISIONS", "Extracted", "Source", "from_json", "photograph_json"]

FIELDS = ("who", "what", "when", "where")

Source = Literal["caller", "llm", "pattern", "model"]

_PRECISIONS = {
    r"\d{4}": "year",
    r"\d{4}-\d\d": "month",
    r"\d{4}-W\d\d": "week",
    r"\d{4}-\d\d-\d\d": "day",
    r"\S+T\d\d/\S+": "part of a day",
    r"\S+T\d\d": "hour",
    r"\S+T\d\d:\d\d": "minute",
    r"\S+T\d\d:\d\d:\d\d": "second",
}
PRECISIONS = (None, *_PRECISIONS.values())
"""From words that could not be read to the second."""
_OFFSET = r"(?:[+-]\d\d:\d\d(?::\d\d(?:\.\d+)?)?)?"


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
        for shape, name in _PRECISIONS.items():
            if re.fullmatch(shape + _OFFSET, self.value):
                return name
        return None


def photograph_json(photograph: Mapping[str, Extracted]) -> str | None:
    """What was extracted, not what the caller said: field -> [value, source, start, end]."""
    kept = {
        name: [field.value, field.source, *(field.span or (None, None))]
        for name, field in photograph.items()
        if field.source != "caller"
    }
    return to_json(kept) if kept else None


def from_json(text: str | None, *given: str | None) -> dict[str, Extracted]:
    """The photograph from what was extracted, and what the caller said, which goes first: who,
    what, when and where."""
    if text is None and not any(given):
        return {}
    kept = {} if text is None else json.loads(text)
    result = {}
    for name, value in zip(FIELDS, given, strict=True):
        if value is not None:
            result[name] = Extracted(value, "caller")
        elif name in kept:
            value, source, start, end = kept[name]
            result[name] = Extracted(value, source, None if start is None else (start, end))
    return result
