"""Export and import of a namespace, as JSON Lines or Parquet.

A file has a header (format, embedder, policy, surprise statistics, number of memories) and the
memories, each with its vector, its strength as stored and its earlier texts. Numbers come back bit
for bit.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, Protocol

import numpy as np

from flashbulb import _jsonl
from flashbulb._check import HIGHEST_ID, check_text, to_json
from flashbulb._files import outside_the_store, replacing
from flashbulb._plain import Kept, as_dict, as_integer, checked, plain
from flashbulb._store import Space, Store, check_embedder, policy_from_json, policy_to_json
from flashbulb._time import to_seconds
from flashbulb.engine import Engine
from flashbulb.errors import FlashbulbError
from flashbulb.storage.rows import TRACE_COLUMNS
from flashbulb.storage.translation import decoding
from flashbulb.surprise import SurpriseDetector

__all__ = ["export", "import_"]

FORMAT = "flashbulb-export"
VERSION = 3
_BATCH = 1000
_HEADER = frozenset(
    ("format", "version", "memories", "embedder", "policy", "surprise", "last_seen", "refused_pins")
)


class _Format(Protocol):
    """A kind of file: memories are plain data, with bytes for vectors and statistics."""

    def write(
        self, file: BinaryIO, header: dict[str, Any], memories: Iterator[dict[str, Any]], dim: int
    ) -> None: ...

    def read(self, path: str) -> Iterator[tuple[str, Any]]:
        """Each part with a name for its place: the header first, then the memories.

        What is not of this kind is a ValueError that begins with the place.
        """
        ...


def _format(path: str) -> _Format:
    """The module that reads and writes files with this ending."""
    if os.path.splitext(path)[1].lower() != ".parquet":
        return _jsonl
    try:
        from flashbulb import _parquet
    except ImportError as error:
        raise ImportError(
            f"Parquet needs pyarrow ({error}): pip install 'flashbulb[parquet]'", name=error.name
        ) from error
    return _parquet


def export(store: Store, space: Space, path: str | os.PathLike[str]) -> int:
    """Write the namespace to `path`, atomically, under the store's lock."""
    target = outside_the_store(store.path, path)
    form = _format(target)
    space = store.with_archive(space)
    ids = space.engine.ids.tolist()
    with replacing(target) as file:
        header = _header(store, space, len(ids))
        form.write(file, header, _memories(store, space, ids), store.embedder.dim)
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
        "surprise": states,
        "last_seen": seen,
        "refused_pins": space.refused_pins,
    }


def _memories(store: Store, space: Space, ids: list[int]) -> Iterator[dict[str, Any]]:
    for start in range(0, len(ids), _BATCH):
        some = ids[start : start + _BATCH]
        rows = store.database.rows(some)
        repeats = store.database.occurrences(some)
        versions = store.database.versions(some)
        wanted = np.array(some, dtype=np.int64)
        vectors = space.engine.vectors(wanted).astype("<f4")
        traces = space.engine.traces(wanted)
        columns = {name: traces[name].tolist() for name in TRACE_COLUMNS}
        for i, id in enumerate(some):
            trace = {
                name: None if values[i] != values[i] else values[i]
                for name, values in columns.items()
            }
            kept = Kept(
                rows[id], trace, vectors[i].tobytes(), repeats.get(id, []), versions.get(id, [])
            )
            with decoding(store.path):
                yield plain(kept)


class _Parsed:
    """An export file, read and found good as a whole."""

    def __init__(self, store: Store, path: str | os.PathLike[str], lowest_id: int) -> None:
        self.dim = store.embedder.dim
        self.memories: list[Kept] = []
        used: set[int] = set()
        count: int | None = None
        source = outside_the_store(store.path, path)
        parts = _format(source).read(source)
        try:
            for place, values in parts:
                if count is None:
                    with _at(place):
                        count = self._read_header(store, values, str(path))
                    continue
                with _at(place):
                    kept = checked(values, self.dim)
                    _check_id(kept.row.id, used, lowest_id)
                used.add(kept.row.id)
                self.memories.append(kept)
            if len(self.memories) != count:
                raise ValueError(
                    f"{place}: the file ends after {len(self.memories)} of {count} memories"
                )
        except ValueError as error:
            if isinstance(error, FlashbulbError):
                raise
            raise ValueError(f"{path}, {error}") from error

    def _read_header(self, store: Store, header: dict[str, Any], path: str) -> int:
        """What is for the namespace as a whole; returns the number of memories."""
        if header.keys() != _HEADER:
            wrong = ", ".join(sorted(header.keys() ^ _HEADER))
            raise ValueError(f"missing or unknown: {wrong:.200}")
        if header["format"] != FORMAT:
            raise ValueError(f"not a Flashbulb export: format is {header['format']!r:.80}")
        if header["version"] not in range(1, VERSION + 1):
            raise ValueError(
                f"the export needs version {header['version']!r:.80} of the format, "
                f"this Flashbulb reads up to {VERSION}"
            )
        as_integer(header["version"], "version", 1, VERSION)
        self.refused_pins = as_integer(header["refused_pins"], "refused_pins", 0, HIGHEST_ID)
        check_embedder(header["embedder"], store.described_embedder(), path)
        self.policy = policy_from_json(to_json(header["policy"]))
        self.last_seen = {
            check_text(tag, "a tag"): to_seconds(time, "last_seen")
            for tag, time in as_dict(header["last_seen"], "last_seen").items()
        }
        self.surprise = {}
        stream = Engine(self.dim, approximate=False)
        for mode, state in as_dict(header["surprise"], "surprise").items():
            if SurpriseDetector.from_state(state, last_seen={}, engine=stream).mode != mode:
                raise ValueError(f"surprise has the statistics of another mode under {mode!r:.80}")
            self.surprise[mode] = state
        return as_integer(header["memories"], "memories", 0, HIGHEST_ID)

    def renumber(self, first: int) -> None:
        """Give the memories the ids from `first` on."""
        self.memories = [
            kept._replace(row=kept.row._replace(id=id))
            for id, kept in enumerate(self.memories, start=first)
        ]


@contextmanager
def _at(place: str) -> Iterator[None]:
    """What is wrong inside is so at this place."""
    try:
        yield
    except (TypeError, ValueError) as error:
        if isinstance(error, FlashbulbError):
            raise
        raise ValueError(f"{place}: {error}") from error


def _check_id(id: int, used: set[int], lowest: int) -> None:
    if id in used:
        raise ValueError(f"id {id} is in the file twice")
    if id < lowest:
        raise ValueError(
            f"id {id} is not free: this store has used the ids up to {lowest - 1}; "
            "import into a new store, or with new_ids=True"
        )


def import_(
    store: Store, space: Space, path: str | os.PathLike[str], now: float, *, new_ids: bool
) -> int:
    """Add the memories of the file at `path`, all or none, under the store's lock."""
    parsed = _Parsed(store, path, lowest_id=1 if new_ids else store.next_id)
    parsed.memories.sort(key=lambda kept: kept.row.id)
    if new_ids:
        store.check_room(len(parsed.memories))
        parsed.renumber(store.next_id)
    engine = _engine(parsed)
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
        for kept in parsed.memories:
            database.insert(kept.row._replace(namespace=number))
        database.insert_strengths(engine.ids, engine.traces(), engine.vectors(engine.ids))
        for kept in parsed.memories:
            for time, metadata in kept.occurrences:
                database.add_occurrence(kept.row.id, number, time, metadata)
            for place, version in enumerate(kept.versions, start=1):
                database.add_version(kept.row.id, place, *version)
        loaded = store.load(space.name)
    store.replace(loaded)
    if parsed.memories:
        store.next_id = parsed.memories[-1].row.id + 1
    return len(parsed.memories)


def _engine(parsed: _Parsed) -> Engine:
    memories = parsed.memories
    columns = {
        name: np.array(
            [math.nan if (v := kept.trace[name]) is None else v for kept in memories], dtype=kind
        )
        for name, kind in TRACE_COLUMNS.items()
    }
    vectors = np.frombuffer(b"".join(kept.vector for kept in memories), dtype="<f4")
    ids = np.array([kept.row.id for kept in memories], dtype=np.int64)
    return Engine.from_state(
        {
            "dim": parsed.dim,
            "policy": parsed.policy.to_dict(),
            "next_id": int(ids[-1]) + 1 if len(ids) else 1,
            "ids": ids,
            "created": np.array([kept.row.created for kept in memories], dtype=np.float64),
            "tags": [()] * len(ids),  # this engine only holds strengths
            "vectors": vectors.reshape(len(ids), parsed.dim),
            **columns,
        },
        approximate=False,
    )
