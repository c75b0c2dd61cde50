"""Finding who, what and where in a text, by the patterns of ``data/patterns.toml``."""

from __future__ import annotations

import functools
import ipaddress
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.resources import files
from typing import Any

_toml: Any = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")

__all__ = ["Kind", "Span", "find", "kinds"]

Span = tuple[int, int]
"""Where in the text: ``text[start:end]``."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of thing that can be told apart by how it is written."""

    field: str
    name: str
    pattern: re.Pattern[str]
    check: str | None
    yes: tuple[str, ...]
    """Examples: a text, " => ", and what is found in it."""
    no: tuple[str, ...]
    """Texts in which nothing is found."""

    def spans(self, text: str) -> list[Span]:
        found = (self._span(match) for match in self.pattern.finditer(text))
        return [span for span in found if self.check != "ip" or _is_address(text[slice(*span)])]

    def _span(self, match: re.Match[str]) -> Span:
        for name in self.pattern.groupindex:
            if match[name] is not None:
                return match.span(name)
        return match.span()


def find(field: str, text: str, taken: Sequence[Span]) -> Span | None:
    """The first place of the first kind that is there and overlaps none of `taken`."""
    for kind in kinds():
        if kind.field == field:
            for start, end in kind.spans(text):
                if all(end <= first or start >= last for first, last in taken):
                    return start, end
    return None


@functools.cache
def kinds() -> tuple[Kind, ...]:
    """All kinds, in the order in which they are tried."""
    text = (files(__package__) / "data" / "patterns.toml").read_text("utf-8")
    tables = _toml.loads(text)
    words = tables.pop("words")
    for _ in range(2):  # words are made of words
        words = {name: _filled(value, words) for name, value in words.items()}
    return tuple(
        Kind(
            field,
            entry["kind"],
            re.compile(_filled(entry["pattern"], words), re.VERBOSE),
            entry.get("check"),
            tuple(entry["yes"]),
            tuple(entry["no"]),
        )
        for field, entries in tables.items()
        for entry in entries
    )


def _filled(pattern: str, words: dict[str, str]) -> str:
    return re.sub(r"\{([a-z_]+)\}", lambda match: f"(?:{words[match[1]]})", pattern)


def _is_address(text: str) -> bool:
    """Whether it is an IP address, and no version, no name in C++, no punctuation."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    if address.version == 6:
        return any(character.isdigit() for character in text)
    return address.packed[0] >= 10 or text in _RESOLVERS


# Whose first octet is below 10, where a version is more likely.
_RESOLVERS = frozenset(("1.1.1.1", "1.0.0.1", "8.8.8.8", "8.8.4.4", "9.9.9.9"))
