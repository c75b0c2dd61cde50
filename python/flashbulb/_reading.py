"""From the rows of the database and the strengths of the engine to what a user sees."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flashbulb._check import same_json, to_json
from flashbulb._store import Space, Store
from flashbulb.photograph.extracted import FIELDS, from_json
from flashbulb.records import Occurrence, Record, Stats, Status
from flashbulb.storage.rows import Row
from flashbulb.storage.translation import decoding

__all__ = ["filtered", "ordered", "records", "stats"]

STATUS: tuple[Status, ...] = ("none", "open", "completed")  # by the engine's number
# What of the engine's columns a record shows, in the order that `_record` takes.
_STRENGTH = (
    "salience",
    "floor",
    "pinned",
    "status",
    "urgency",
    "access_count",
    "last_access",
    "present",
    "effective",
)
ORDERS = (
    "created",
    "vividness",
    "effective_vividness",
    "salience",
    "last_access",
    "access_count",
)


def records(
    store: Store, space: Space, ids: Sequence[int], now: float | Sequence[float]
) -> list[Record]:
    """These memories of the namespace as they stand at `now`, in the order of `ids`."""
    rows = store.database.rows(ids)
    repeats = store.database.occurrences(ids)
    wanted = np.array(ids, dtype=np.int64)
    moments = [now] if isinstance(now, float) else now
    if len(set(moments)) == 1:
        parts = [space.engine.traces(wanted, now=moments[0])]
    else:
        parts = [space.engine.traces([id], now=at) for id, at in zip(ids, moments, strict=True)]
    columns = [[value for part in parts for value in part[name].tolist()] for name in _STRENGTH]
    strengths = zip(*columns, strict=True)
    with decoding(store.path):
        return [
            _record(rows[id], repeats.get(id, ()), *strength)
            for id, strength in zip(ids, strengths, strict=True)
        ]


def _record(
    row: Row,
    repeats: Sequence[tuple[float, str]],
    salience: float,
    floor: float,
    pinned: bool,
    status: int,
    urgency: float,
    access_count: int,
    last_access: float,
    vividness: float,
    effective: float,
) -> Record:
    metadata = _metadata(row.metadata)
    said = row.who, row.what, row.when, row.where
    photograph = from_json(row.photograph, *said)
    if photograph:
        who, what, when, where = (
            photograph[name].value if name in photograph else None for name in FIELDS
        )
    else:
        who, what, when, where = said
    return Record(
        id=row.id,
        text=row.text,
        created=row.created,
        occurrences=(
            Occurrence(row.created, metadata),
            *[Occurrence(time, _metadata(text)) for time, text in repeats],
        ),
        tags=_tags(row.tags),
        metadata=metadata,
        arousal=row.arousal,
        arousal_source=row.arousal_source,
        surprise=row.surprise,
        importance=row.importance,
        flashbulb=bool(row.flashbulb),
        salience=salience,
        floor=floor,
        pinned=pinned,
        status=STATUS[status],
        urgency=_none(urgency),
        vividness=vividness,
        effective_vividness=effective,
        access_count=access_count,
        last_access=_none(last_access),
        archived=row.archived,
        who=who,
        what=what,
        when=when,
        where=where,
        photograph=photograph,
    )


def _metadata(text: str) -> dict[str, Any]:
    """A new dict each time: it belongs to whoever gets the record."""
    metadata: dict[str, Any] = {} if text == "{}" else json.loads(text)
    return metadata


@lru_cache(maxsize=4096)
def _tags(text: str) -> tuple[str, ...]:
    return tuple(json.loads(text))


def _none(value: float) -> float | None:
    return None if math.isnan(value) else value


def filtered(
    store: Store,
    space: Space,
    wanted: Mapping[str, Any],
    since: float | None,
    until: float | None,
) -> list[int]:
    """Memories with an occurrence in the window whose metadata has all of `wanted`."""
    if space.number is None:
        return []
    # What must be in the JSON text rejects most rows in SQL; the parsed JSON decides.
    parts = []
    for key, value in wanted.items():
        scalar = value is None or isinstance(value, (bool, str))
        parts.append(f"{to_json(key)}:{to_json(value) if scalar else ''}")
    found = set()
    for id, text in store.database.metadata_with(space.number, parts, since, until):
        with decoding(store.path):
            metadata = json.loads(text)
        if all(key in metadata and same_json(metadata[key], wanted[key]) for key in wanted):
            found.add(id)
    return sorted(found)


def ordered(
    space: Space, tags: Sequence[str], status: str | None, order: str, now: float
) -> NDArray[np.int64]:
    """Ids of the memories that have all `tags` and this status, in order; equal ones by id."""
    reverse, key = order.startswith("-"), order.removeprefix("-")
    if key not in ORDERS:
        raise ValueError(
            f"order must be one of {', '.join(ORDERS)}, or one with '-' before it, got {order!r}"
        )
    ids = space.engine.with_tags(tags) if tags else space.engine.ids
    if status is not None:
        ids = ids[space.engine.traces(ids)["status"] == STATUS.index(status)]
    if key in ("vividness", "effective_vividness"):
        values = space.engine.vividness(ids, now=now, effective=key.startswith("effective"))
    else:
        values = space.engine.traces(ids)[key].astype(np.float64)
        values = np.where(np.isnan(values), -np.inf, values)  # never accessed
    return ids[np.argsort(-values if reverse else values, kind="stable")]


def stats(store: Store, space: Space) -> Stats:
    number = -1 if space.number is None else space.number
    counts = store.database.counts(number)
    traces = space.engine.traces()
    tags: Counter[str] = Counter()
    for names, count in store.database.tags(number):
        with decoding(store.path):
            tags.update(dict.fromkeys(json.loads(names), count))
    status = traces["status"]
    return Stats(
        namespace=space.name,
        memories=len(space.engine),
        archived=len(space.archived),
        occurrences=len(space.engine) + counts["repeats"],
        open_tasks=int((status == STATUS.index("open")).sum()),
        completed_tasks=int((status == STATUS.index("completed")).sum()),
        pinned=int(traces["pinned"].sum()),
        pinned_by_surprise=len(space.surprise_pins),
        surprise_pins_refused=space.refused_pins,
        flashbulbs=counts["flashbulbs"],
        deferred=counts["deferred"],
        tags=dict(sorted(tags.items())),
        namespaces=counts["namespaces"],
        store_bytes=store.database.size(),
        snapshot=store.snapshots.state(space.number),
        embedder=store.described_embedder(),
        policy=store.policy.to_dict(),
    )
