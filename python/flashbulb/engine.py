"""Engine: vectors in, ids and scores out. It knows no text."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flashbulb import _core
from flashbulb._check import (
    check_bool,
    check_count,
    check_dim,
    check_items,
    check_mapping,
    check_number,
    check_tags,
    check_unit,
    is_one_of,
)
from flashbulb._columns import to_addends, to_column, to_ids, to_tag_sets, to_unit_rows
from flashbulb._faiss import SearchPath, StorageKind, VectorRows
from flashbulb._partition import Growth, Partition, Stopped, build
from flashbulb._signals import SignalsDeferred
from flashbulb._time import Time, to_seconds
from flashbulb._traces import COLUMNS, STATUS, Traces
from flashbulb.errors import StoreForked
from flashbulb.policy import Policy

__all__ = ["Engine", "MemoryUse", "SearchResult"]

# Tombstones are compacted away once they are this many and at least half of the rows.
_COMPACT_AT = 4096


# Exact batches share the reading of the rows: from so many queries on they are faster than as many
# approximate searches.
_EXACT_QUERIES = 16


class SearchResult(NamedTuple):
    """What a search found, best first: score descending, then id ascending.

    Each array has shape (k,) for one query and (m, k) for several, k being what was asked for or
    as many memories as pass the filters; ``scores`` is the sum
    ``(similarities + vividness_bonus) + recency_bonus``, bit for bit.
    """

    ids: NDArray[np.int64]
    scores: NDArray[np.float64]
    similarities: NDArray[np.float64]
    """similarity_weight · cosine + addend"""
    cosines: NDArray[np.float64]
    vividness_bonus: NDArray[np.float64]
    recency_bonus: NDArray[np.float64]


class MemoryUse(NamedTuple):
    """Bytes in RAM, tombstones included until they are compacted away."""

    vectors: int
    """The stored rows: 4 bytes a value in fp32, 2 in fp16, 1 in 8 bits."""
    structure: int
    """What an attached index has beside its rows: the graph of HNSW, the ids of inverted lists and
    maps (without the hash table of an ``IndexIDMap2``), and where the row of each id lies; and the
    lists of rows for approximate searches."""
    sketch: int
    """The quantised copies that searches read first: 1 byte a value, padded; 0 without them."""
    traces: int
    """Strengths, times, tags."""
    bytes_per_row: float
    """All of it, divided by the number of rows."""


class Engine:
    """Memory traces over the vectors of a FAISS index, searched by the fused score.

    Safe to use from several threads: searches run side by side and without the interpreter lock,
    changes run alone. Times are aware datetimes or seconds since 1970-01-01 UTC.

    Parameters
    ----------
    dim_or_index : int or faiss.Index
        Number of dimensions, 1 to 32,768, or a FAISS index (inner product, or L2) of unit rows: an
        ``IndexFlat``, ``IndexScalarQuantizer`` (fp16 or 8 bit), ``IndexHNSWFlat``,
        ``IndexIVFFlat`` or ``IndexIVFScalarQuantizer``, as it is or in an ``IndexIDMap`` or
        ``IndexIDMap2``. Its rows are searched where they lie, as FAISS decodes them. It belongs to
        the engine from then on and must be changed through it only. Ids of an inverted file or a
        map become the ids of the memories; without them they are 0 .. ntotal-1, and after
        ``compact`` row i of the index is memory ``ids[i]``. A graph keeps removed rows,
        overwritten, until ``compact`` builds it anew.
    policy : Policy
        The constants of the laws.
    now : time, optional
        Required for an index that already has rows.
    salience, created, tags : optional
        Of the rows that the index already has, in ascending order of their ids, as in :meth:`add`.
    storage : {"fp32", "fp16"}
        How the engine keeps its own rows. "fp16" halves their bytes; a stored row then is the
        given one rounded to IEEE halves, and searches are exact with respect to that.
    path : {"auto", "fp32", "int8", "int4"}
        What a search reads first: the rows, or a sketch of them in 8 or in 4 bits a value (kept
        beside them), after which the few rows that may be among the best are scored from the
        originals. Results are the same, bit for bit. "auto": what pays, by size and processor.
    approximate : bool
        Whether searches may look at a part of a large store only, see :meth:`search`. True: from
        200,000 rows on the engine divides them into lists, on a thread of its own; an attached
        inverted file or graph is used as what it is. False: every search is exact.

    Raises
    ------
    TypeError
        For any other kind of index; the message names it.
    ValueError
        If there are not 1 to 32,768 dimensions, ``now`` is missing, or the index is not trained,
        borrows its storage, has ids that are negative or not unique, or a row without unit norm
        within 1e-5 (fp16: 1e-3, 8 bit: 0.05).
    """

    def __init__(
        self,
        dim_or_index: int | Any,
        *,
        policy: Policy | None = None,
        now: Time | None = None,
        salience: ArrayLike = 0.0,
        created: ArrayLike | Time | None = None,
        tags: Iterable[Any] | None = None,
        path: SearchPath = "auto",
        storage: StorageKind = "fp32",
        approximate: bool = True,
    ) -> None:
        if not is_one_of(path, get_args(SearchPath)):
            raise ValueError(f"path must be one of {get_args(SearchPath)}, got {path!r:.80}")
        if not isinstance(approximate, bool):
            raise TypeError(f"approximate must be a bool, got {approximate!r}")
        if not is_one_of(storage, ("fp32", "fp16")):
            raise ValueError(f"storage must be 'fp32' or 'fp16', got {storage!r:.80}")
        policy = Policy() if policy is None else _check_policy(policy)
        if isinstance(dim_or_index, (int, np.integer)):
            rows = VectorRows.own(check_dim(dim_or_index), kind=storage, path=path)
        else:
            if storage != "fp32":
                raise ValueError(f"an index has its own storage: got storage={storage!r} with one")
            rows = VectorRows.attach(dim_or_index, path=path)
        self._path = "auto" if path == "fp32" else path
        self._rows = rows
        self._approximate = approximate
        self._growth = Growth()
        self._traces = Traces(policy)
        self._lock = _core.RwLock()
        self._pid = os.getpid()
        if len(rows):
            if now is None:
                raise ValueError(
                    f"the index has {len(rows)} rows: now= must give their time of creation"
                )
            moment = to_seconds(now, "now")
            columns = self._traces.columns(len(rows), moment, salience=salience, created=created)
            self._traces.append(len(rows), moment, columns, to_tag_sets(tags, len(rows)), rows.ids)
            self._grow()

    # -- what it is ------------------------------------------------------------------------------

    @property
    def dim(self) -> int:
        """Number of dimensions of a vector."""
        return self._rows.dim

    @property
    def path(self) -> SearchPath:
        """What a search reads first now: "fp32", "int8" or "int4"."""
        return self._rows.path

    @property
    def storage(self) -> str:
        """How rows are stored: "fp32", "fp16", and in an attached index "sq8" (8-bit codes) and
        "fp16 residual" (halves of the difference to a centroid)."""
        return self._rows.storage.kind

    @property
    def policy(self) -> Policy:
        """The constants of the laws."""
        return self._traces.policy

    @property
    def next_id(self) -> int:
        """The lowest id that was never used."""
        return self._traces.table.next_id

    @property
    def ids(self) -> NDArray[np.int64]:
        """Ids of all memories, ascending."""
        with self._reading():
            return self._traces.ids(self._traces.table.live_rows())

    def __len__(self) -> int:
        return self._traces.table.live

    def __contains__(self, memory_id: object) -> bool:
        with self._reading():
            return bool(self._traces.table.find(to_ids((memory_id,), "id", beyond=None))[0] >= 0)

    def __repr__(self) -> str:
        return f"Engine(dim={self.dim}, memories={len(self)})"

    # -- adding ----------------------------------------------------------------------------------

    def add(
        self,
        vectors: ArrayLike,
        *,
        salience: ArrayLike = 0.0,
        floor: ArrayLike | None = None,
        urgency: ArrayLike | None = None,
        tags: Iterable[Any] | None = None,
        created: ArrayLike | Time | None = None,
        pinned: ArrayLike = False,
        ids: ArrayLike | None = None,
        now: Time,
    ) -> NDArray[np.int64]:
        """Adds memories; all of them, or none if one is bad.

        Parameters
        ----------
        vectors : (n, dim) or (dim,) array of floats
            Normalised to unit length here.
        salience : float or (n,) floats in [0, 1]
        floor : float or (n,) floats in [0, 1], optional
            Stability floor; by default what the policy gives for the salience.
        urgency : float or (n,) floats in [0, 1], optional
            Makes a memory an open task; NaN: not a task.
        tags : sequence of str, or n sequences of str, optional
            One sequence of strings is given to every row.
        created : time or (n,) epoch seconds, optional
            Time of creation, from which vividness fades; by default ``now``.
        pinned : bool or (n,) bools
        ids : (n,) integers, optional
            Ascending, none of them used before; by default the next free ones.
        now : time

        Returns
        -------
        (n,) int64
            The ids.

        Raises
        ------
        DimensionMismatch
            If the vectors have another number of dimensions.
        ValueError
            If a vector is not finite or zero (its row is named), a value is out of range, or an id
            was used before.
        """
        moment = to_seconds(now, "now")
        rows = to_unit_rows(vectors, self.dim, "vectors")
        count = len(rows)
        columns = self._traces.columns(
            count,
            moment,
            salience=salience,
            floor=floor,
            urgency=urgency,
            created=created,
            pinned=pinned,
        )
        names = to_tag_sets(tags, count)
        wanted = None if ids is None else to_ids(ids, beyond=ValueError)
        if wanted is not None and len(wanted) != count:
            raise ValueError(f"expected {count} ids, got {len(wanted)}")
        with self._writing(), SignalsDeferred():
            new = self._traces.next_ids(count) if wanted is None else wanted
            self._rows.append(rows, new)
            try:
                self._traces.append(count, moment, columns, names, new)
            except BaseException:
                self._rows.truncate(len(self._rows) - count)
                raise
        self._grow()
        return new

    # -- searching -------------------------------------------------------------------------------

    @property
    def partition(self) -> Partition | None:
        """How the rows are divided for approximate searches; None: they are not."""
        lists = self._rows.lists
        return None if lists is None else lists.describe()

    def build_partition(self) -> None:
        """Divides the rows for approximate searches now, whatever their number, and returns when
        that is done; a large store does it by itself. Searches and changes go on meanwhile.

        How many rows a search must look at is measured with the queries of the last searches (up to
        256, from 64 on), else with rows of the store: ask some typical ones before.

        Raises
        ------
        TypeError
            If the index is an inverted file or a graph, which has what it needs.
        """
        if not self._rows.divisible:
            raise TypeError("an attached inverted file or graph needs no partition")
        self._require_own_process()
        while True:
            try:
                for _ in build(weakref.ref(self)):
                    pass
            except Stopped:  # a compaction has renumbered the rows
                continue
            return

    def _grow(self) -> None:
        if self._approximate and self._rows.divisible:
            self._growth.look_at(self)

    def search(
        self,
        queries: ArrayLike,
        k: int = 10,
        *,
        now: Time,
        tags: Sequence[str] | None = None,
        since: Time | None = None,
        until: Time | None = None,
        also: ArrayLike | None = None,
        status: str | None = None,
        allowed: ArrayLike | None = None,
        similarity_weight: float = 1.0,
        addends: Any = None,
        vividness_weight: float | None = None,
        recency_weight: float | None = None,
        vividness_ramp: tuple[float, float] | None = None,
        exact: bool | None = None,
    ) -> SearchResult:
        """The top k by similarity, vividness and recency together. Changes nothing.

        A store that is divided into lists, and an attached inverted file or graph, answer
        approximately: looked at are the rows that are near the query by these means, all
        flashbulbs (pinned, or of a salience from ``policy.flashbulb_threshold`` on), about a
        hundredth of the rows that have the largest bonus, and those with an addend. What is found
        has its exact score, and no flashbulb of the exact top k is ever missing.

        Parameters
        ----------
        queries : (dim,) or (m, dim) array of floats
            Normalised to unit length here; m may be 0.
        k : int >= 0
            The result has ``min(k, memories that pass the filters)`` of them for each query.
        now : time
        tags : sequence of str, optional
            Only memories that have all of these.
        since, until : time, optional
            Only memories with ``since <= created < until``.
        also : ids, optional
            Memories whose time counts as inside although ``created`` is not.
        status : {"open", "completed", "none"}, optional
            Only open tasks, completed tasks, or what is not a task.
        allowed : ids, optional
            Only these memories; unknown ids are passed over.
        similarity_weight : float
            ``similarity = similarity_weight · cosine + addend``.
        addends : (ids, values), or a list of them, one a query
            Sparse values to add to the similarity; unknown ids are passed over.
        vividness_weight, recency_weight : float, optional
            In place of the policy's. Both 0: plain similarity.
        vividness_ramp : (start, end), optional
            In place of the policy's.
        exact : bool, optional
            True: all rows are looked at. False: not all, if the engine knows where to look, even
            of ``Engine(approximate=False)``. None: approximately where that is faster, which it is
            not for many queries at once. Where a large part of the rows would have to be looked at,
            as in rows without any groups, all are.

        Raises
        ------
        DimensionMismatch, ValueError, TypeError
            For queries of another dim, or that are zero or not finite; for bad arguments.
        """
        moment = to_seconds(now, "now")
        k = check_count(k, "k")
        if exact is not None and not isinstance(exact, bool):
            raise TypeError(f"exact must be a bool or None, got {exact!r}")
        rows = to_unit_rows(queries, self.dim, "queries")
        single = np.ndim(queries) == 1
        if status is not None and not is_one_of(status, STATUS):
            raise ValueError(f"status must be one of {sorted(STATUS)}, got {status!r:.80}")
        start = -np.inf if since is None else to_seconds(since, "since")
        end = np.inf if until is None else to_seconds(until, "until")
        wanted = () if tags is None else check_tags(tags)
        pairs = to_addends(addends, len(rows), single)
        ramp: dict[str, Any] = {}
        if vividness_ramp is not None:
            ends = check_items(vividness_ramp, "vividness_ramp", "two numbers")
            if len(ends) != 2:
                raise ValueError(f"vividness_ramp must be (start, end), got {len(ends)} values")
            names = ("vividness_ramp_start", "vividness_ramp_end")
            ramp = {name: check_number(end, name) for name, end in zip(names, ends, strict=True)}
        policy = self._traces.policy
        weights = [
            check_number(default if weight is None else weight, name)
            for name, weight, default in (
                ("similarity_weight", similarity_weight, None),
                ("vividness_weight", vividness_weight, policy.vividness_weight),
                ("recency_weight", recency_weight, policy.recency_weight),
            )
        ]
        with self._reading():
            known = self._traces.known_tags(wanted)
            k = min(k, len(self))
            approximately = self._approximate and len(rows) < _EXACT_QUERIES
            nearby = (
                self._rows.nearby(rows, k)
                if k and exact is not True and (approximately or exact is False)
                else []
            )
            arguments = (
                self._rows.view(),
                self._traces.table,
                k,
                moment,
                *weights,
                known,
                len(known) < len(wanted),
                float(start),
                float(end),
                None if also is None else self._traces.known_rows(also),
                None if status is None else STATUS[status],
                None if allowed is None else self._traces.known_rows(allowed),
                self._rows.sketch,
                self._path,
            )
            added = [self._traces.addend_rows(ids, values) for ids, values in pairs]
            found = _search(rows, added, arguments, nearby, ramp)
        if exact is False or (exact is None and self._approximate):
            self._growth.note(rows)
        return SearchResult(*(part[0] for part in found)) if single else SearchResult(*found)

    def cosines(self, queries: ArrayLike, ids: ArrayLike) -> NDArray[np.float64]:
        """Cosine of each query to each memory, (m, n), by the one definition of similarity."""
        rows = to_unit_rows(queries, self.dim, "queries")
        vectors = self.vectors(ids)
        return np.array([[_core.inner_product(q, x) for x in vectors] for q in rows]).reshape(
            len(rows), len(vectors)
        )

    def with_tags(self, tags: Sequence[str]) -> NDArray[np.int64]:
        """Ids of the memories that have all of these tags, ascending."""
        wanted = check_tags(tags)
        with self._reading():
            return self._traces.with_tags(wanted)

    def newest(self, tags: Sequence[str] = ()) -> int | None:
        """Id of the memory created last among those that have all of these tags."""
        wanted = check_tags(tags)
        with self._reading():
            return self._traces.newest(wanted)

    # -- what changes strength -------------------------------------------------------------------

    def touch(self, ids: ArrayLike, now: Time) -> None:
        """Access: strengthens memories (at most once an hour each) and counts it.

        A repeated id counts once for each time it is given. Raises ``MemoryNotFound`` for an
        unknown id; nothing is changed then. So do the calls below.
        """
        moment = to_seconds(now, "now")
        wanted = to_ids(ids)
        with self._writing():
            self._traces.table.touch(self._traces.rows_of(wanted), self._traces.at(moment))

    def strengthen(self, ids: ArrayLike, gain: float, now: Time) -> None:
        """Raises vividness by ``gain`` in [0, 1], up to 1, at most once an hour for each memory;
        not an access: nothing is counted."""
        moment = to_seconds(now, "now")
        gain = check_unit(gain, "gain")
        wanted = to_ids(ids)
        with self._writing():
            rows = self._traces.rows_of(wanted)
            self._traces.table.strengthen(rows, gain, self._traces.at(moment))

    def suppress(
        self, accessed: ArrayLike, related: ArrayLike | None = None, *, now: Time
    ) -> NDArray[np.int64]:
        """Retrieval-induced forgetting of what is close to accessed memories.

        Parameters
        ----------
        accessed : ids that were accessed; never suppressed here
        related : ids that may be suppressed; by default all memories
        now : time

        Returns
        -------
        int64 array
            Ids whose strength moved, ascending.
        """
        moment = to_seconds(now, "now")
        accessed = to_ids(accessed, "accessed")
        others = None if related is None else to_ids(related, "related")
        with self._writing():
            moved = _core.suppress(
                self._rows.view(),
                self._traces.table,
                self._traces.rows_of(accessed),
                None if others is None else self._traces.rows_of(others),
                self._traces.at(moment),
                self._rows.sketch,
            )
            return self._traces.ids(moved)

    def complete(self, ids: ArrayLike, now: Time | None = None) -> None:
        """Marks tasks as completed: unpins them and lowers their floors by one class.

        ``now`` is by default the latest time that any call has named. Completing a completed task
        changes nothing; what is not a task is a ``ValueError``.
        """
        moment = None if now is None else to_seconds(now, "now")
        wanted = to_ids(ids)
        with self._writing():
            rows = self._traces.rows_of(wanted)
            status = self._traces.table.export(rows)["status"]
            if not status.all():
                raise ValueError(f"memory {wanted[int(np.argmin(status))]} is not a task")
            when = self._traces.latest if moment is None else moment
            self._traces.table.complete(rows, self._traces.at(when))

    def pin(self, ids: ArrayLike, *, now: Time) -> None:
        """Pins memories: vividness 1, exempt from decay and suppression."""
        moment = to_seconds(now, "now")
        wanted = to_ids(ids)
        with self._writing():
            self._traces.table.pin(self._traces.rows_of(wanted), self._traces.at(moment))

    def unpin(self, ids: ArrayLike, *, now: Time) -> None:
        """Ends the pinning; decay starts again at ``now``."""
        moment = to_seconds(now, "now")
        wanted = to_ids(ids)
        with self._writing():
            self._traces.table.unpin(self._traces.rows_of(wanted), self._traces.at(moment))

    def decay(self, now: Time) -> None:
        """Re-anchors every memory at ``now``. It changes no vividness: decay is derived on read."""
        moment = to_seconds(now, "now")
        with self._writing():
            self._traces.table.materialize_decay(self._traces.at(moment))

    def set_policy(self, policy: Policy, *, now: Time) -> None:
        """Other constants from ``now`` on; what the old ones did until then stays."""
        moment = to_seconds(now, "now")
        _check_policy(policy)
        with self._writing():
            self._traces.set_policy(policy, moment)

    # -- replacing -------------------------------------------------------------------------------

    def replace_vectors(self, ids: ArrayLike, vectors: ArrayLike) -> None:
        """Gives memories other vectors; all of them, or none if one is bad. Nothing else of them
        changes.

        In an attached graph the rows get new nodes; the old ones stay, overwritten, until the next
        removal and :meth:`compact` build it anew.

        Parameters
        ----------
        ids : ids, each once
        vectors : (n, dim) or (dim,) array of floats
            Normalised to unit length here.

        Raises
        ------
        MemoryNotFound
            If an id is unknown.
        DimensionMismatch, ValueError
            As in :meth:`add`; or if an id comes twice, or there are not as many vectors as ids.
        """
        new = to_unit_rows(vectors, self.dim, "vectors")
        wanted = to_ids(ids)
        if len(wanted) != len(new):
            raise ValueError(f"expected {len(wanted)} vectors for as many ids, got {len(new)}")
        with self._writing(), SignalsDeferred():
            rows = self._traces.rows_of(wanted)
            order = np.argsort(rows, kind="stable")
            rows = rows[order]
            twice = np.flatnonzero(rows[1:] == rows[:-1])
            if len(twice):
                raise ValueError(f"id {wanted[order][twice[0]]} came twice")
            self._rows.replace(rows, new[order], wanted[order])

    # -- removing --------------------------------------------------------------------------------

    def remove(self, ids: ArrayLike) -> int:
        """Removes memories and overwrites their vectors; unknown ids are passed over.

        Returns
        -------
        int
            How many were removed. Their ids are never used again, every other id stays as it is.
        """
        wanted = np.unique(to_ids(ids, beyond=None))
        with self._writing():
            table = self._traces.table
            rows = table.find(wanted)
            rows = rows[rows >= 0]
            self._rows.clear(rows)
            table.remove(rows)
            tombstones = len(table) - table.live
            many = tombstones >= _COMPACT_AT and tombstones * 2 >= len(table)
            if many and self._rows.storage.compacts_quickly:
                self._compact()
            return len(rows)

    def compact(self) -> None:
        """Gives the room of removed memories back. Ids do not change.

        It happens by itself once half of the rows are removed ones, except in an attached
        ``IndexHNSWFlat``, whose graph must be built anew (minutes for a million rows); until that
        has been done, the old one is kept as well.
        """
        with self._writing():
            self._compact()

    def _compact(self) -> None:
        table = self._traces.table
        if table.live < len(table):
            with SignalsDeferred():
                self._rows.keep(table.live_rows())
                table.compact()

    # -- reading ---------------------------------------------------------------------------------

    def vividness(
        self, ids: ArrayLike | None = None, *, now: Time, effective: bool = False
    ) -> NDArray[np.float64]:
        """Vividness at ``now`` of these memories (default: all, in ascending order of ids).

        ``effective`` adds the task terms (Zeigarnik effect).
        """
        moment = to_seconds(now, "now")
        wanted = None if ids is None else to_ids(ids)
        effective = check_bool(effective, "effective")
        with self._reading():
            rows = self._traces.rows_or_all(wanted)
            return self._traces.table.vividness(rows, moment, effective)

    def vectors(self, ids: ArrayLike) -> NDArray[np.float32]:
        """Copies of the stored unit vectors, (n, dim) float32."""
        wanted = to_ids(ids)
        with self._reading():
            return self._rows.view().read(self._traces.rows_of(wanted))

    def memory_bytes(self) -> MemoryUse:
        """What the engine takes in RAM, and what one more row would."""
        with self._reading():
            rows = self._rows
            vectors = rows.storage.memory_bytes
            structure = rows.storage.structure_bytes
            if rows.lists is not None:
                structure += rows.lists.native.memory_bytes
            sketch = 0 if rows.sketch is None else len(rows) * rows.sketch.row_bytes
            traces = self._traces.table.memory_bytes
            total = vectors + structure + sketch + traces
            return MemoryUse(vectors, structure, sketch, traces, total / max(1, len(rows)))

    def traces(
        self, ids: ArrayLike | None = None, *, now: Time | None = None
    ) -> dict[str, NDArray[Any]]:
        """The columns of :meth:`state` for these memories (default: all).

        With ``now`` also ``present`` and ``effective``: :meth:`vividness` at that moment, without
        and with the task terms.
        """
        moment = None if now is None else to_seconds(now, "now")
        wanted = None if ids is None else to_ids(ids)
        with self._reading():
            table = self._traces.table
            rows = self._traces.rows_or_all(wanted)
            columns = table.export(rows)
            if moment is not None:
                columns["present"] = table.vividness(rows, moment, False)
                columns["effective"] = table.vividness(rows, moment, True)
            return columns

    def state(self) -> dict[str, Any]:
        """Everything that makes up the engine, for :meth:`from_state`.

        Returns
        -------
        dict
            ``dim``, ``next_id``, ``latest`` (the latest time a call has named), ``storage``
            (:attr:`storage`), ``policy`` (dict), ``vectors`` (n, dim) float32, ``tags`` (list of n
            tuples of str), and columns of length n: ``ids``, ``access_count`` int64; ``salience``,
            ``floor``, ``vividness`` with ``vividness_time`` (its anchor), ``created``,
            ``last_access``, ``last_strength_change`` (NaN: never), ``urgency`` (NaN: not a task)
            float64; ``status`` uint8 (0 not a task, 1 open, 2 completed); ``pinned`` bool. Times
            are epoch seconds.
        """
        with self._reading():
            rows = self._traces.table.live_rows()
            return {
                "dim": self.dim,
                "next_id": self.next_id,
                "latest": float(self._traces.latest),
                "storage": self.storage,
                "policy": self._traces.policy.to_dict(),
                "vectors": self._rows.view().read(rows),
                "tags": self._traces.tag_names(rows),
                **self._traces.table.export(rows),
            }

    @classmethod
    def from_state(cls, state: dict[str, Any], *, approximate: bool = True) -> Engine:
        """An engine from :meth:`state`, bit for bit; ``approximate`` as of a new one.

        Raises
        ------
        ValueError
            If a key is missing, columns do not fit together, ids do not ascend, a value is out of
            range, a vector does not have unit norm within 1e-5 (fp16: 1e-3), or the storage is
            neither "fp32" nor "fp16": such rows need their index.
        """
        check_mapping(state, "state")
        missing = {"dim", "next_id", "policy", "vectors", "tags", *COLUMNS} - set(state)
        if missing:
            raise ValueError(f"the state lacks {', '.join(sorted(missing))}")
        dim = check_dim(state["dim"])
        engine = cls(
            dim,
            policy=Policy(**state["policy"]),
            storage=state.get("storage", "fp32"),
            approximate=approximate,
        )
        ids = to_ids(state["ids"], beyond=ValueError)
        vectors = np.ascontiguousarray(state["vectors"], dtype=np.float32)
        if vectors.shape != (len(ids), dim):
            raise ValueError(f"expected vectors of shape {(len(ids), dim)}, got {vectors.shape}")
        columns = {
            name: to_column(state[name], len(ids), name, dtype)
            for name, dtype in COLUMNS.items()
            if name != "ids"
        }
        latest = float(state.get("latest", -np.inf))
        tags = to_tag_sets(state["tags"], len(ids))
        engine._traces.append(len(ids), latest, columns, tags, ids)
        engine._rows.append(vectors, ids)
        bad = engine._rows.view().first_row_not_unit()
        if bad < len(ids):
            tolerance = engine._rows.view().format.norm_tolerance
            raise ValueError(f"vector {bad} does not have unit norm within {tolerance:g}")
        engine._traces.table.next_id = check_count(state["next_id"], "next_id")
        engine._grow()
        return engine

    # -- within ----------------------------------------------------------------------------------

    def _require_own_process(self) -> None:
        if os.getpid() != self._pid:
            raise StoreForked(
                f"this engine belongs to process {self._pid}; a forked child must open its own"
            )

    def _reading(self) -> _core.SharedGuard:
        self._require_own_process()
        return self._lock.shared()

    def _writing(self) -> _core.ExclusiveGuard:
        self._require_own_process()
        return self._lock.exclusive()


def _search(
    queries: NDArray[np.float32],
    addends: list[tuple[NDArray[np.int64], NDArray[np.float64]]],
    arguments: tuple[Any, ...],
    nearby: list[dict[str, Any]],
    ramp: dict[str, Any],
) -> tuple[Any, ...]:
    """One call for all queries, or one for each if each has candidates of its own.

    ``arguments`` are those of ``_core.search`` that are alike for all, by position.
    """
    if len(nearby) <= 1:
        near = {**(nearby[0] if nearby else {}), **ramp}
        return _core.search(queries, addends, *arguments, **near)
    each = [
        _core.search(queries[i : i + 1], addends[i : i + 1], *arguments, **{**near, **ramp})
        for i, near in enumerate(nearby)
    ]
    return tuple(map(np.concatenate, zip(*each, strict=True)))


def _check_policy(policy: object) -> Policy:
    if not isinstance(policy, Policy):
        raise TypeError(f"policy must be a flashbulb.Policy, got {type(policy).__name__}")
    return policy
