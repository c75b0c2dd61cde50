"""How far events lie from what came before them, looked up for a whole batch at once."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from flashbulb import _core
from flashbulb.engine import Engine

__all__ = ["CentroidLookahead", "Lookahead", "NeighbourLookahead", "Seen"]

# Columns of a search result that are read here.
_IDS, _COSINES = 0, 1


class Seen(NamedTuple):
    """An event against everything before it; None for what there was not, or was not looked for."""

    to_centroid: float | None = None
    """Distance to the centroid."""
    to_neighbours: float | None = None
    """Mean distance to the nearest memories."""
    nearest_id: int | None = None
    """The memory of the highest cosine, of equal ones the first."""
    nearest_cosine: float | None = None


class Lookahead:
    """What is known of the events of a batch, which are asked for one after the other."""

    def __init__(
        self, centroid: CentroidLookahead | None, neighbours: NeighbourLookahead | None
    ) -> None:
        self._centroid = centroid
        self._neighbours = neighbours

    def next(self) -> Seen:
        """The next event, against all before it: those of the batch, too."""
        seen = Seen() if self._neighbours is None else self._neighbours.next()
        return seen if self._centroid is None else seen._replace(to_centroid=self._centroid.next())

    def enter(self, id: int) -> None:
        """The event that was asked for last has become memory ``id``, above all others."""
        if self._neighbours is not None:
            self._neighbours.enter(id)


class CentroidLookahead:
    """Distances to a running centroid, which takes in the whole batch in one pass, right away.

    Parameters
    ----------
    centroid : Centroid
        Has seen the events before the batch.
    rows : (n, dim) float32
        Unit vectors.
    """

    def __init__(self, centroid: _core.Centroid, rows: NDArray[np.float32]) -> None:
        first = centroid.count == 0
        distances: list[float | None] = list(centroid.observe(rows).tolist())
        if first and distances:
            distances[0] = None
        self._distances = iter(distances)

    def next(self) -> float | None:
        """Of the next event; None if none came before it."""
        return next(self._distances)


class NeighbourLookahead:
    """Mean L2 distances to the nearest memories, by one search for the whole batch.

    What the batch itself adds lies in a small engine of its own, and both lists are merged: exactly
    the neighbours that a search would find if every event entered the engine before the next.

    Parameters
    ----------
    engine : Engine
        Holds the memories before the batch, and nothing of the batch while it is asked.
    rows : (n, dim) float32
        Unit vectors.
    count : int
        How many neighbours.
    given : (n, dim) array of floats, optional
        The vectors as the engine will get them, if not as ``rows``: a vector that is normalised
        twice may differ from one that is normalised once.
    """

    def __init__(
        self,
        engine: Engine,
        rows: NDArray[np.float32],
        count: int,
        given: NDArray[Any] | None = None,
    ) -> None:
        self._engine = engine
        self._rows = rows
        self._given = rows if given is None else given
        self._count = count
        self._found = _nearest(engine, rows, count) if len(engine) else None
        self._recent: Engine | None = None
        self._entered: list[tuple[int, int]] = []  # (row, id), not yet among the recent ones
        self._row = -1

    def next(self) -> Seen:
        self._row += 1
        ids, cosines, vectors = self._before()
        if self._entered or self._recent is not None:
            recent = self._recent_ones()
            found = _nearest(recent, self._rows[self._row : self._row + 1], self._count)
            ids = np.concatenate([ids, found[_IDS][0]])
            cosines = np.concatenate([cosines, found[_COSINES][0]])
            vectors = np.concatenate([vectors, recent.vectors(found[_IDS][0])])
            best = np.lexsort((ids, -cosines))[: self._count]
            ids, cosines, vectors = ids[best], cosines[best], vectors[best]
        if not len(cosines):
            return Seen()
        distances = _distances(self._rows[self._row], vectors)
        return Seen(None, float(distances.mean()), int(ids[0]), float(cosines[0]))

    def enter(self, id: int) -> None:
        self._entered.append((self._row, id))

    def _before(self) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float32]]:
        if self._found is None:
            nothing = np.empty((0, self._rows.shape[1]), np.float32)
            return np.empty(0, np.int64), np.empty(0), nothing
        ids = self._found[_IDS][self._row]
        return ids, self._found[_COSINES][self._row], self._engine.vectors(ids)

    def _recent_ones(self) -> Engine:
        if self._recent is None:
            is_half = self._engine.storage == "fp16"
            self._recent = Engine(
                self._rows.shape[1], storage="fp16" if is_half else "fp32", approximate=False
            )
        if self._entered:
            rows, ids = (np.array(part, np.int64) for part in zip(*self._entered, strict=True))
            self._recent.add(self._given[rows], ids=ids, now=0.0)
            self._entered = []
        return self._recent


def _nearest(
    engine: Engine, rows: NDArray[np.float32], count: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    found = engine.search(
        rows, count, now=0.0, vividness_weight=0.0, recency_weight=0.0, exact=True
    )
    return found.ids, found.cosines


def _distances(vector: NDArray[np.float32], rows: NDArray[np.float32]) -> NDArray[np.float64]:
    # Not as sqrt(2 - 2 cos): the last bits of float32 norms would make 3e-4 out of 0.
    difference = rows.astype(np.float64) - vector
    distances: NDArray[np.float64] = np.sqrt(np.einsum("ij,ij->i", difference, difference))
    return distances
