"""A memory that is about to be stored: the arguments of ``remember``, checked."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from flashbulb._check import (
    check_metadata,
    check_moment,
    check_optional_text,
    check_tags,
    check_text,
    check_unit,
    to_json,
)
from flashbulb._time import to_seconds

__all__ = ["Draft", "digest_of"]


@dataclass(frozen=True, slots=True)
class Draft:
    """Arguments of ``remember`` that have been found good. `metadata` is JSON already."""

    text: str
    context: str
    tags: tuple[str, ...]
    metadata: str
    urgency: float | None
    who: str | None
    what: str | None
    when: str | None
    where: str | None
    arousal: float | None
    now: float

    @classmethod
    def of(cls, item: object, now: float) -> Draft:
        """Check one item of ``remember_many``: a text, or a dict of ``remember``'s arguments.

        `now` is for an item without one of its own.
        """
        values: Mapping[str, Any] = {"text": item} if isinstance(item, str) else item  # type: ignore[assignment]
        if not isinstance(values, Mapping):
            raise TypeError(
                f"an item must be a str or a dict of remember's arguments, "
                f"got {type(item).__name__}"
            )
        unknown = [str(name) for name in values if name not in _ARGUMENTS]
        if unknown or "text" not in values:
            wrong = f"unknown {', '.join(unknown)}" if unknown else "no text"
            raise TypeError(f"an item must have remember's arguments, got {wrong}")
        urgency, arousal = values.get("urgency"), values.get("arousal")
        moment = values.get("now")
        return cls(
            text=check_text(values["text"], "text"),
            context=check_text(values.get("context", ""), "context", empty=True),
            tags=check_tags(values.get("tags", ())),
            metadata=check_metadata(values.get("metadata")),
            urgency=None if urgency is None else check_unit(urgency, "urgency"),
            who=check_optional_text(values.get("who"), "who"),
            what=check_optional_text(values.get("what"), "what"),
            when=check_moment(values.get("when"), "when"),
            where=check_optional_text(values.get("where"), "where"),
            arousal=None if arousal is None else check_unit(arousal, "arousal"),
            now=now if moment is None else to_seconds(moment, "now"),
        )

    @classmethod
    def numbered(cls, number: int, item: object, now: float) -> Draft:
        """As :meth:`of`, for one item of many: errors name it."""
        try:
            return cls.of(item, now)
        except TypeError as error:
            raise TypeError(f"item {number}: {error}") from error
        except ValueError as error:
            raise ValueError(f"item {number}: {error}") from error

    def digest(self) -> bytes:
        """As :func:`digest_of`."""
        facts = self.who, self.what, self.when, self.where
        return digest_of(self.text, self.tags, facts, self.urgency)

    def columns(self) -> dict[str, Any]:
        """What of a stored row the arguments alone say."""
        return {
            "digest": self.digest(),
            "text": self.text,
            "tags": to_json(self.tags),
            "metadata": self.metadata,
            "who": self.who,
            "what": self.what,
            "when": self.when,
            "where": self.where,
            "created": self.now,
        }


def digest_of(
    text: str, tags: Iterable[str], facts: tuple[str | None, ...], urgency: float | None
) -> bytes:
    """Equal for what counts as the same memory, remembered again; `facts`: who, what, when, where.

    The text counts in Unicode's composed form and with runs of white space as one blank.
    Upper and lower case differ: two keys or names that differ by case only are two facts.
    """
    plain = " ".join(unicodedata.normalize("NFC", text).split())
    parts = [plain, sorted(tags), *facts, urgency]
    return hashlib.blake2b(to_json(parts).encode(), digest_size=16).digest()


_ARGUMENTS = frozenset(field.name for field in fields(Draft))
