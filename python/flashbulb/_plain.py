"""One memory as plain data, as an export has it; and whether such data are a memory.

Plain data are what JSON knows, but for the vector: bytes of little-endian float32.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from flashbulb._check import (
    HIGHEST_ID,
    check_metadata,
    check_optional_text,
    check_text,
    check_unit,
    to_json,
)
from flashbulb._draft import Draft
from flashbulb._time import to_seconds
from flashbulb._traces import STATUS
from flashbulb.storage.rows import TRACE_COLUMNS, Row

__all__ = ["NAMES", "Kept", "as_dict", "as_integer", "checked", "plain"]

_PINNED_BY = (None, "user", "surprise")

NAMES = frozenset(Row._fields) - {"namespace", "digest"} | {
    "occurrences",
    "trace",
    "vector",
    "versions",
}
"""What plain data have, exactly."""


class Kept(NamedTuple):
    """All that a store keeps of one memory; its namespace is not known here: -1."""

    row: Row
    trace: dict[str, Any]
    vector: bytes
    occurrences: list[tuple[float, str]]
    """The second and later ones: time, and metadata as JSON."""
    versions: list[tuple[float, str, str]]
    """The earlier texts: until when, text, reason."""


def plain(kept: Kept) -> dict[str, Any]:
    """What is kept, as plain data; a ValueError if what shall be JSON is not."""
    row = kept.row
    values = row._asdict()
    del values["namespace"], values["digest"]
    values["flashbulb"] = bool(row.flashbulb)
    values["deferred"] = bool(row.deferred)
    values["tags"] = json.loads(row.tags)
    values["metadata"] = json.loads(row.metadata)
    values["photograph"] = None if row.photograph is None else json.loads(row.photograph)
    values["occurrences"] = [[time, json.loads(text)] for time, text in kept.occurrences]
    values["versions"] = [list(version) for version in kept.versions]
    values["trace"] = kept.trace
    values["vector"] = kept.vector
    return values


def checked(values: Mapping[str, Any], dim: int) -> Kept:
    """What plain data say, with a vector of `dim` dimensions.

    Raises
    ------
    TypeError, ValueError
        If that is no memory.
    """
    if values.keys() != NAMES:
        wrong = ", ".join(sorted(values.keys() ^ NAMES))
        raise ValueError(f"missing or unknown: {wrong:.200}")
    id = as_integer(values["id"], "id", 1, HIGHEST_ID)
    trace = _trace(values["trace"])
    draft = Draft.of(
        {
            "text": values["text"],
            "tags": values["tags"],
            "metadata": as_dict(values["metadata"], "metadata"),
            "urgency": trace["urgency"],
            "who": values["who"],
            "what": values["what"],
            "when": check_optional_text(values["when"], "when"),
            "where": values["where"],
            "arousal": check_unit(values["arousal"], "arousal"),
        },
        to_seconds(values["created"], "created"),
    )
    if values["pinned_by"] not in _PINNED_BY or (values["pinned_by"] is None) == trace["pinned"]:
        raise ValueError(
            f"pinned_by {values['pinned_by']!r:.80} does not fit pinned {trace['pinned']}"
        )
    if not isinstance(values["deferred"], bool):
        raise TypeError(f"deferred must be true or false, got {values['deferred']!r:.80}")
    archived = values["archived"]
    if archived is not None:
        archived = to_seconds(archived, "archived")
        if trace["pinned"] or trace["status"] == STATUS["open"]:
            raise ValueError("what is pinned, or an open task, is never archived")
    surprise, importance = _surprise_of(values)
    if trace["vividness_time"] < draft.now:
        raise ValueError(
            f"created must not be later than vividness_time {trace['vividness_time']!r}, "
            f"got {draft.now!r}"
        )
    vector = values["vector"]
    if not isinstance(vector, bytes) or len(vector) != 4 * dim:
        got = f"{len(vector)} bytes" if isinstance(vector, bytes) else type(vector).__name__
        raise ValueError(f"vector must have {4 * dim} bytes, got {got}")
    norm = float(np.linalg.norm(np.frombuffer(vector, dtype="<f4").astype(np.float64)))
    if not abs(norm - 1.0) <= 1e-5:  # NaN too
        raise ValueError(f"vector must have length 1, has {norm:g}")
    occurrences, versions = [], []
    for pair in _list(values["occurrences"], "occurrences"):
        if len(_list(pair, "an occurrence")) != 2:
            raise ValueError("an occurrence must be a time and metadata")
        metadata = check_metadata(as_dict(pair[1], "metadata"))
        occurrences.append((to_seconds(pair[0], "an occurrence's time"), metadata))
    for version in _list(values["versions"], "versions"):
        if len(_list(version, "a version")) != 3:
            raise ValueError("a version must be a time, a text and a reason")
        replaced = to_seconds(version[0], "a version's time")
        text, reason = (check_text(part, "a version's text and reason") for part in version[1:])
        versions.append((replaced, text, reason))
    row = Row(
        id=id,
        namespace=-1,
        **draft.columns(),
        arousal=float(values["arousal"]),
        arousal_source=check_text(values["arousal_source"], "arousal_source"),
        surprise=surprise,
        importance=importance,
        flashbulb=int(values["flashbulb"]),
        pinned_by=values["pinned_by"],
        photograph=_photograph(values["photograph"]),
        deferred=int(values["deferred"]),
        deferred_context=check_text(values["deferred_context"], "a context", empty=True),
        archived=archived,
    )
    return Kept(row, trace, vector, occurrences, versions)


def as_dict(value: object, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"{name} must be an object, got {type(value).__name__}")
    return value


def _list(value: object, name: str) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"{name} must be a list, got {type(value).__name__}")
    return value


def as_integer(value: object, name: str, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an integer, got {type(value).__name__} {value!r:.80}")
    if not low <= value <= high:
        raise ValueError(f"{name} must be in [{low}, {high}], got {value}")
    return value


def _optional_number(value: object, name: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise TypeError(f"{name} must be a finite number or null, got {value!r:.80}")
    return float(value)


def _surprise_of(line: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """Surprise and importance, if they fit each other, the pin and the flashbulb.

    From which arousal on a memory is a flashbulb is not asked: the policy may have been another.
    """
    surprise = _optional_number(line["surprise"], "surprise")
    importance = (
        None if line["importance"] is None else check_unit(line["importance"], "importance")
    )
    if (surprise is None) != (importance is None):
        raise ValueError("surprise and importance must both be numbers, or both null")
    arousal, flashbulb, by_surprise = line["arousal"], line["flashbulb"], importance == 1.0
    if not isinstance(flashbulb, bool):
        raise TypeError(f"flashbulb must be true or false, got {flashbulb!r:.80}")
    if line["pinned_by"] == "surprise" and not by_surprise:
        raise ValueError(f"what is pinned by surprise has an importance of 1, got {importance!r}")
    if flashbulb and not by_surprise and arousal == 0:
        raise ValueError("a flashbulb must have an arousal above 0, or an importance of 1")
    if not flashbulb and (arousal == 1 or line["pinned_by"] == "surprise"):
        raise ValueError("flashbulb must be true where arousal is 1 or surprise has pinned")
    return surprise, importance


def _photograph(value: object) -> str | None:
    """What was extracted from a text, as JSON: field -> [value, source, start, end]."""
    if value is None:
        return None
    for name, field in as_dict(value, "photograph").items():
        if name not in ("who", "what", "when", "where"):
            raise ValueError(f"photograph has an unknown field {name!r:.80}")
        if len(_list(field, name)) != 4:
            raise ValueError(f"{name} of the photograph must be a value, source, start and end")
        for part in field[:2]:
            check_text(part, f"{name} of the photograph")
        for place in field[2:]:
            if place is not None:
                as_integer(place, f"{name} of the photograph", 0, HIGHEST_ID)
    return to_json(value)


def _trace(value: object) -> dict[str, Any]:
    """The strength of a memory, each column in its range."""
    trace = dict(as_dict(value, "trace"))
    if trace.keys() != TRACE_COLUMNS.keys():
        raise ValueError(f"trace must have {', '.join(TRACE_COLUMNS)}")
    for name in ("salience", "floor", "vividness"):
        trace[name] = check_unit(trace[name], name)
    trace["vividness_time"] = to_seconds(trace["vividness_time"], "vividness_time")
    for name in ("last_access", "last_strength_change"):
        if trace[name] is not None:
            trace[name] = to_seconds(trace[name], name)
    if trace["urgency"] is not None:
        trace["urgency"] = check_unit(trace["urgency"], "urgency")
    as_integer(trace["access_count"], "access_count", 0, 2**62)
    as_integer(trace["status"], "status", 0, 2)
    if not isinstance(trace["pinned"], bool):
        raise TypeError(f"pinned must be true or false, got {trace['pinned']!r:.80}")
    if (trace["status"] == 0) != (trace["urgency"] is None):
        raise ValueError("a task, and only a task, must have an urgency")
    return trace
