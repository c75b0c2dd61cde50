"""Export and import of a namespace as JSON Lines.

The first line says what the file is: format, embedder, policy, surprise statistics, number of
memories. Each further line is one memory, with its vector (base64 of little-endian float32), its
strength as stored and its earlier texts. Numbers are written so that they come back bit for bit.
"""

from __future__ import annotations

import base64
import json
import math
import os
from collections.abc import Iterator
from typing import Any

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
from flashbulb._files import outside_the_store, replacing
from flashbulb._store import Space, Store, check_embedder, policy_from_json, policy_to_json
from flashbulb._time import to_seconds
from flashbulb._traces import STATUS
from flashbulb.engine import Engine
from flashbulb.errors import FlashbulbError
from flashbulb.storage.rows import TRACE_COLUMNS, Row
from flashbulb.storage.translation import decoding
from flashbulb.surprise import SurpriseDetector

__all__ = ["export", "import_"]

FORMAT = "flashbulb-export"
VERSION = 3
_BATCH = 1000
_PINNED_BY = (None, "user", "surprise")


def export(store: Store, space: Space, path: str | os.PathLike[str]) -> int:
    """Write the namespace to `path`, atomically, under the store's lock."""
    target = outside_the_store(store.path, path)
    space = store.with_archive(space)
    ids = space.engine.ids.tolist()
    with replacing(target) as file:
        file.write(_line(_header(store, space, len(ids))))
        for start in range(0, len(ids), _BATCH):
            for line in _lines(store, space, ids[start : start + _BATCH]):
                file.write(_line(line))
    return len(ids)


def _header(store: Store, space: Space, memories: int) -> dict[str, Any]:
    states: dict[str, bytes] = {}
    seen: dict[str, float] = {}
    if space.number is not None:
        states = store.database.surprise_states(space.number)
        seen = store.database.last_seen(space.number)
    return {
        "format": FORMAT,
        "version": VERSION,
        "memories": memories,
        "embedder": store.described_embedder(),
        "policy": json.loads(policy_to_json(store.policy)),
        "surprise": {mode: _to_base64(state) for mode, state in states.items()},
        "last_seen": seen,
        "refused_pins": space.refused_pins,
    }


def _lines(store: Store, space: Space, ids: list[int]) -> Iterator[dict[str, Any]]:
    rows = store.database.rows(ids)
    repeats = store.database.occurrences(ids)
    versions = store.database.versions(ids)
    wanted = np.array(ids, dtype=np.int64)
    vectors = space.engine.vectors(wanted).astype("<f4")
    traces = space.engine.traces(wanted)
    columns = {name: traces[name].tolist() for name in TRACE_COLUMNS}
    for i, id in enumerate(ids):
        row = rows[id]
        line = row._asdict()
        del line["namespace"], line["digest"]
        line["flashbulb"] = bool(row.flashbulb)
        line["deferred"] = bool(row.deferred)
        line["versions"] = versions.get(id, [])
        with decoding(store.path):
            line["tags"] = json.loads(row.tags)
            line["metadata"] = json.loads(row.metadata)
            line["photograph"] = None if row.photograph is None else json.loads(row.photograph)
            line["occurrences"] = [[time, json.loads(text)] for time, text in repeats.get(id, ())]
        line["trace"] = {
            name: None if values[i] != values[i] else values[i] for name, values in columns.items()
        }
        line["vector"] = _to_base64(vectors[i].tobytes())
        yield line


def _line(value: dict[str, Any]) -> bytes:
    return f"{to_json(value)}\n".encode()


def _to_base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


class _Parsed:
    """An export file, read and found good as a whole."""

    def __init__(self, store: Store, path: str | os.PathLike[str], lowest_id: int) -> None:
        with open(outside_the_store(store.path, path), "rb") as file:
            lines = file.read().split(b"\n")
        if lines[-1] == b"":
            lines.pop()
        if not lines:
            raise ValueError(f"{path} is empty, not an export")
        self.dim = store.embedder.dim
        self.rows: list[Row] = []
        self.occurrences: list[tuple[int, float, str]] = []
        self.versions: list[tuple[int, int, float, str, str]] = []
        self.traces: list[dict[str, Any]] = []
        self.vectors: list[bytes] = []
        used: set[int] = set()
        number = 1
        try:
            self._read_header(store, _object(lines[0], _HEADER), str(path))
            for line in lines[1:]:
                number += 1
                self._read_memory(_memory(line, self.version), used, lowest_id)
            if len(self.rows) != self.memories:
                raise ValueError(
                    f"the file ends after {len(self.rows)} of {self.memories} memories"
                )
        except (TypeError, ValueError) as error:
            if isinstance(error, FlashbulbError):
                raise
            raise ValueError(f"{path}, line {number}: {error}") from error

    def _read_header(self, store: Store, header: dict[str, Any], path: str) -> None:
        if header["format"] != FORMAT:
            raise ValueError(f"not a Flashbulb export: format is {header['format']!r:.80}")
        if header["version"] not in range(1, VERSION + 1):
            raise ValueError(
                f"the export needs version {header['version']!r:.80} of the format, "
                f"this Flashbulb reads up to {VERSION}"
            )
        self.version = _integer(header["version"], "version", 1, VERSION)
        self.memories = _integer(header["memories"], "memories", 0, HIGHEST_ID)
        self.refused_pins = _integer(header["refused_pins"], "refused_pins", 0, HIGHEST_ID)
        check_embedder(header["embedder"], store.described_embedder(), path)
        self.policy = policy_from_json(to_json(header["policy"]))
        self.last_seen = {
            check_text(tag, "a tag"): to_seconds(time, "last_seen")
            for tag, time in _dict(header["last_seen"], "last_seen").items()
        }
        self.surprise = {}
        stream = Engine(self.dim, approximate=False)
        for mode, state in _dict(header["surprise"], "surprise").items():
            data = _from_base64(state, "surprise")
            if SurpriseDetector.from_state(data, last_seen={}, engine=stream).mode != mode:
                raise ValueError(f"surprise has the statistics of another mode under {mode!r:.80}")
            self.surprise[mode] = data

    def _read_memory(self, line: dict[str, Any], used: set[int], lowest: int) -> None:
        id = _integer(line["id"], "id", 1, HIGHEST_ID)
        if id in used:
            raise ValueError(f"id {id} is in the file twice")
        if id < lowest:
            raise ValueError(
                f"id {id} is not free: this store has used the ids up to {lowest - 1}; "
                "import into a new store, or with new_ids=True"
            )
        used.add(id)
        trace = _trace(line["trace"])
        draft = Draft.of(
            {
                "text": line["text"],
                "tags": line["tags"],
                "metadata": _dict(line["metadata"], "metadata"),
                "urgency": trace["urgency"],
                "who": line["who"],
                "what": line["what"],
                "when": check_optional_text(line["when"], "when"),
                "where": line["where"],
                "arousal": check_unit(line["arousal"], "arousal"),
            },
            to_seconds(line["created"], "created"),
        )
        if line["pinned_by"] not in _PINNED_BY or (line["pinned_by"] is None) == trace["pinned"]:
            raise ValueError(
                f"pinned_by {line['pinned_by']!r:.80} does not fit pinned {trace['pinned']}"
            )
        if not isinstance(line["deferred"], bool):
            raise TypeError(f"deferred must be true or false, got {line['deferred']!r:.80}")
        archived = line["archived"]
        if archived is not None:
            archived = to_seconds(archived, "archived")
            if trace["pinned"] or trace["status"] == STATUS["open"]:
                raise ValueError("what is pinned, or an open task, is never archived")
        surprise, importance = _surprise_of(line)
        if trace["vividness_time"] < draft.now:
            raise ValueError(
                f"created must not be later than vividness_time {trace['vividness_time']!r}, "
                f"got {draft.now!r}"
            )
        vector = _from_base64(line["vector"], "vector")
        values = np.frombuffer(vector, dtype="<f4") if len(vector) == 4 * self.dim else None
        if values is None:
            raise ValueError(f"vector must have {4 * self.dim} bytes, got {len(vector)}")
        norm = float(np.linalg.norm(values.astype(np.float64)))
        if not abs(norm - 1.0) <= 1e-5:  # NaN too
            raise ValueError(f"vector must have length 1, has {norm:g}")
        for pair in _list(line["occurrences"], "occurrences"):
            if len(_list(pair, "an occurrence")) != 2:
                raise ValueError("an occurrence must be a time and metadata")
            metadata = check_metadata(_dict(pair[1], "metadata"))
            self.occurrences.append((id, to_seconds(pair[0], "an occurrence's time"), metadata))
        for number, version in enumerate(_list(line["versions"], "versions"), start=1):
            if len(_list(version, "a version")) != 3:
                raise ValueError("a version must be a time, a text and a reason")
            replaced = to_seconds(version[0], "a version's time")
            text, reason = (check_text(part, "a version's text and reason") for part in version[1:])
            self.versions.append((id, number, replaced, text, reason))
        self.rows.append(
            Row(
                id=id,
                namespace=-1,
                digest=draft.digest(),
                text=draft.text,
                tags=to_json(draft.tags),
                metadata=draft.metadata,
                who=draft.who,
                what=draft.what,
                when=draft.when,
                where=draft.where,
                arousal=float(line["arousal"]),
                arousal_source=check_text(line["arousal_source"], "arousal_source"),
                surprise=surprise,
                importance=importance,
                flashbulb=int(line["flashbulb"]),
                pinned_by=line["pinned_by"],
                created=draft.now,
                photograph=_photograph(line["photograph"]),
                deferred=int(line["deferred"]),
                deferred_context=check_text(line["deferred_context"], "a context", empty=True),
                archived=archived,
            )
        )
        self.traces.append(trace)
        self.vectors.append(vector)

    def renumber(self, order: list[int], first: int) -> None:
        """Give the memories, in this order, the ids from `first` on."""
        new = {self.rows[i].id: first + place for place, i in enumerate(order)}
        self.rows = [row._replace(id=new[row.id]) for row in self.rows]
        self.occurrences = [(new[id], time, metadata) for id, time, metadata in self.occurrences]
        self.versions = [(new[version[0]], *version[1:]) for version in self.versions]


def import_(
    store: Store, space: Space, path: str | os.PathLike[str], now: float, *, new_ids: bool
) -> int:
    """Add the memories of the file at `path`, all or none, under the store's lock."""
    parsed = _Parsed(store, path, lowest_id=1 if new_ids else store.next_id)
    order = sorted(range(len(parsed.rows)), key=lambda i: parsed.rows[i].id)
    if new_ids:
        store.check_room(len(order))
        parsed.renumber(order, store.next_id)
    rows = [parsed.rows[i] for i in order]
    engine = _engine(parsed, order)
    if parsed.policy != store.policy:  # as at opening: what the old laws did until now stays
        engine.set_policy(store.policy, now=now)
    with store.write() as database:
        number = space.number
        if number is None:
            number = database.create_namespace(space.name)
            for mode, state in parsed.surprise.items():
                database.set_surprise_state(number, mode, state)
            database.set_last_seen(number, parsed.last_seen)
            database.set_refused_pins(number, parsed.refused_pins)
        for row in rows:
            database.insert(row._replace(namespace=number))
        database.insert_strengths(engine.ids, engine.traces(), engine.vectors(engine.ids))
        for memory, time, metadata in parsed.occurrences:
            database.add_occurrence(memory, number, time, metadata)
        for version in parsed.versions:
            database.add_version(*version)
        loaded = store.load(space.name)
    store.replace(loaded)
    if rows:
        store.next_id = rows[-1].id + 1
    return len(rows)


def _engine(parsed: _Parsed, order: list[int]) -> Engine:
    columns = {
        name: np.array(
            [math.nan if (v := parsed.traces[i][name]) is None else v for i in order], dtype=kind
        )
        for name, kind in TRACE_COLUMNS.items()
    }
    vectors = np.frombuffer(b"".join(parsed.vectors[i] for i in order), dtype="<f4")
    ids = np.array([parsed.rows[i].id for i in order], dtype=np.int64)
    return Engine.from_state(
        {
            "dim": parsed.dim,
            "policy": parsed.policy.to_dict(),
            "next_id": int(ids[-1]) + 1 if len(ids) else 1,
            "ids": ids,
            "created": np.array([parsed.rows[i].created for i in order], dtype=np.float64),
            "tags": [()] * len(ids),  # this engine only holds strengths
            "vectors": vectors.reshape(len(ids), parsed.dim),
            **columns,
        },
        approximate=False,
    )


# What a line must have, exactly.
_HEADER = frozenset(
    ("format", "version", "memories", "embedder", "policy", "surprise", "last_seen", "refused_pins")
)
_OWN = frozenset(("occurrences", "trace", "vector", "versions"))
_MEMORY = frozenset(Row._fields) - {"namespace", "digest"} | _OWN
_SINCE_3: dict[str, Any] = {"archived": None}
_SINCE_2: dict[str, Any] = {
    "photograph": None,
    "deferred": False,
    "deferred_context": "",
    "versions": [],
}


def _memory(line: bytes, version: int) -> dict[str, Any]:
    """One memory; what the version of the export did not know yet is as in a new memory."""
    if version == 1:
        later = {**_SINCE_2, **_SINCE_3}
        return {**later, **_object(line, _MEMORY - later.keys())}
    if version == 2:
        return {**_SINCE_3, **_object(line, _MEMORY - _SINCE_3.keys())}
    return _object(line, _MEMORY)


def _object(line: bytes, keys: frozenset[str]) -> dict[str, Any]:
    try:
        value = _dict(json.loads(line.decode("utf-8"), parse_constant=_no_number), "a line")
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if value.keys() != keys:
        wrong = ", ".join(sorted(value.keys() ^ keys))
        raise ValueError(f"missing or unknown: {wrong:.200}")
    return value


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _dict(value: object, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"{name} must be an object, got {type(value).__name__}")
    return value


def _list(value: object, name: str) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"{name} must be a list, got {type(value).__name__}")
    return value


def _integer(value: object, name: str, low: int, high: int) -> int:
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


def _surprise_of(line: dict[str, Any]) -> tuple[float | None, float | None]:
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


def _from_base64(value: object, name: str) -> bytes:
    try:
        return base64.b64decode(check_text(value, name), validate=True)
    except ValueError as error:
        raise ValueError(f"{name} must be base64: {error}") from None


def _photograph(value: object) -> str | None:
    """What was extracted from a text, as JSON: field -> [value, source, start, end]."""
    if value is None:
        return None
    for name, field in _dict(value, "photograph").items():
        if name not in ("who", "what", "when", "where"):
            raise ValueError(f"photograph has an unknown field {name!r:.80}")
        if len(_list(field, name)) != 4:
            raise ValueError(f"{name} of the photograph must be a value, source, start and end")
        for part in field[:2]:
            check_text(part, f"{name} of the photograph")
        for place in field[2:]:
            if place is not None:
                _integer(place, f"{name} of the photograph", 0, HIGHEST_ID)
    return to_json(value)


def _trace(value: object) -> dict[str, Any]:
    """The strength of a memory, each column in its range."""
    trace = dict(_dict(value, "trace"))
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
    _integer(trace["access_count"], "access_count", 0, 2**62)
    _integer(trace["status"], "status", 0, 2)
    if not isinstance(trace["pinned"], bool):
        raise TypeError(f"pinned must be true or false, got {trace['pinned']!r:.80}")
    if (trace["status"] == 0) != (trace["urgency"] is None):
        raise ValueError("a task, and only a task, must have an urgency")
    return trace
