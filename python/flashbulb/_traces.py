"""The traces of an engine: what is known of every row beside its vector, found by id."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flashbulb import _core
from flashbulb._columns import to_column, to_ids
from flashbulb._time import Time, to_seconds
from flashbulb.errors import MemoryNotFound
from flashbulb.policy import Policy

__all__ = ["COLUMNS", "STATUS", "Traces"]

STATUS = {"none": 0, "open": 1, "completed": 2}

COLUMNS: dict[str, type[np.generic]] = {
    "ids": np.int64,
    "salience": np.float64,
    "floor": np.float64,
    "vividness": np.float64,
    "vividness_time": np.float64,
    "created": np.float64,
    "last_access": np.float64,
    "last_strength_change": np.float64,
    "urgency": np.float64,
    "access_count": np.int64,
    "status": np.uint8,
    "pinned": np.bool_,
}


class Traces:
    """Columns and tags of memories; row i belongs to vector i, and ids ascend.

    Not synchronised.
    """

    def __init__(
        self,
        policy: Policy,
        table: _core.TraceTable | None = None,
        tags: _core.TagDictionary | None = None,
    ) -> None:
        if table is None:
            table = _core.TraceTable(_core.Policy(**policy.of_core()))
        self.table = table
        self.policy = policy
        self.latest = -np.inf
        """The latest time any call has named."""
        self.dictionary = _core.TagDictionary() if tags is None else tags

    # -- adding ----------------------------------------------------------------------------------

    def columns(
        self,
        count: int,
        now: float,
        *,
        salience: ArrayLike = 0.0,
        floor: ArrayLike | None = None,
        urgency: ArrayLike | None = None,
        created: ArrayLike | Time | None = None,
        pinned: ArrayLike = False,
    ) -> dict[str, NDArray[Any]]:
        """What a user gives of ``count`` new memories, as columns."""
        salience = to_column(salience, count, "salience")
        if floor is None:
            floor = np.array([self.policy.floor_for(value) for value in salience], np.float64)
        urgency = to_column(np.nan if urgency is None else urgency, count, "urgency")
        if created is None:
            born = np.full(count, now)
        elif not isinstance(created, Sequence) and np.ndim(cast(ArrayLike, created)) == 0:
            born = np.full(count, to_seconds(created, "created"))
        else:
            born = to_column(created, count, "created")
            for extreme in (born.min(), born.max()) if count else ():
                to_seconds(extreme, "created")
        return {
            "salience": salience,
            "floor": to_column(floor, count, "floor"),
            "urgency": urgency,
            "status": np.where(np.isnan(urgency), 0, 1).astype(np.uint8),
            "created": born,
            "vividness_time": born,
            "pinned": to_column(pinned, count, "pinned", np.bool_),
        }

    def append(
        self,
        count: int,
        now: float,
        given: dict[str, NDArray[Any]],
        tags: Sequence[Sequence[str]],
        ids: NDArray[np.int64] | None,
    ) -> None:
        """Adds ``count`` rows, all or none; without ``ids`` they get the next free ones.

        Columns that are not given say: just created, without salience, never accessed.
        """
        columns: dict[str, NDArray[Any]] = {
            "ids": self.next_ids(count) if ids is None else ids,
            "salience": np.zeros(count),
            "floor": np.zeros(count),
            "vividness": np.ones(count),
            "vividness_time": np.full(count, now),
            "created": np.full(count, now),
            "last_access": np.full(count, np.nan),
            "last_strength_change": np.full(count, np.nan),
            "urgency": np.full(count, np.nan),
            "access_count": np.zeros(count, np.int64),
            "status": np.zeros(count, np.uint8),
            "pinned": np.zeros(count, np.bool_),
            **given,
        }
        self.table.append(columns, [[self.dictionary.intern(tag) for tag in each] for each in tags])
        self.latest = max(self.latest, now)

    def next_ids(self, count: int) -> NDArray[np.int64]:
        """The lowest ids that were never used."""
        return np.arange(self.table.next_id, self.table.next_id + count, dtype=np.int64)

    # -- from ids to rows, and back --------------------------------------------------------------

    def rows_of(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Rows of these ids; an unknown one is a ``MemoryNotFound``."""
        rows = self.table.find(ids)
        if len(rows) and rows.min() < 0:
            raise MemoryNotFound(f"no memory has the id {ids[int(np.argmin(rows))]}")
        return rows

    def rows_or_all(self, ids: NDArray[np.int64] | None) -> NDArray[np.int64]:
        """Rows of these ids; None: of all memories, ascending."""
        return self.table.live_rows() if ids is None else self.rows_of(ids)

    def known_rows(self, ids: ArrayLike) -> NDArray[np.int64]:
        """Rows of those of the ids that are known, ascending, each once."""
        rows = np.unique(self.table.find(to_ids(ids, beyond=None)))
        return rows[rows >= 0]

    def addend_rows(
        self, ids: NDArray[np.int64], values: NDArray[np.float64]
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Known rows, ascending, and their values."""
        rows = self.table.find(ids)
        order = np.argsort(rows, kind="stable")
        order = order[rows[order] >= 0]
        return rows[order], values[order]

    def ids(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Ids of these rows."""
        return cast(NDArray[np.int64], self.table.export(rows)["ids"])

    # -- tags ------------------------------------------------------------------------------------

    def known_tags(self, names: Sequence[str]) -> list[int]:
        """The tags of these names that a memory has or had."""
        return [tag for tag in map(self.dictionary.find, names) if tag is not None]

    def with_tags(self, names: Sequence[str]) -> NDArray[np.int64]:
        """Ids of the memories that have all of these tags, ascending."""
        known = self.known_tags(names)
        if len(known) < len(names):
            return np.empty(0, np.int64)
        return self.ids(self.table.rows_with_tags(known))

    def newest(self, names: Sequence[str]) -> int | None:
        """Id of the memory created last among those that have all of these tags."""
        known = self.known_tags(names)
        row = None if len(known) < len(names) else self.table.newest_with_tags(known)
        return None if row is None else int(self.ids(np.array([row], np.int64))[0])

    def tag_names(self, rows: NDArray[np.int64]) -> list[tuple[str, ...]]:
        """The tags of these rows."""
        return [tuple(map(self.dictionary.name, tags)) for tags in self.table.tags(rows)]

    # -- time and laws ---------------------------------------------------------------------------

    def at(self, now: float) -> float:
        """The time of a change, which may be the latest."""
        self.latest = max(self.latest, now)
        return now

    def set_policy(self, policy: Policy, now: float) -> None:
        """Other constants from ``now`` on."""
        native = _core.Policy(**policy.of_core())
        self.table.materialize_decay(self.at(now))
        self.table.set_policy(native)
        self.policy = policy
