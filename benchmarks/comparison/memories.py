"""The same memories for every contender: traces of a year, an engine, and the exact answer.

The exact answer is the fused top k in float64, by NumPy, block by block over the rows that the
engine stores; every recall in a report is against it.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flashbulb import Engine, Policy
from flashbulb._columns import to_unit_rows
from flashbulb._reference import ReferenceEngine, ramp

from .data import Dataset, Vectors

__all__ = ["DAY", "FLASHBULB", "NOW", "Answer", "Memories", "Quality"]

NOW = 1_700_000_000.0
DAY = 86_400.0
K = 10
FLASHBULB = 0.8
"""Salience of what must never be lost."""

_BLOCK = 65_536
_SEED = 7
# Scores of one row by two orders of summation in float64 differ by less.
_SAME_SCORE = 1e-9

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]


@dataclass(frozen=True)
class Answer:
    """The exact fused top k of each query, (m, k), best first."""

    ids: Ids
    scores: Floats


@dataclass(frozen=True)
class Quality:
    """What a contender's answer is worth against the exact one."""

    recall: float
    flashbulbs: float
    """Recall of the flashbulbs in the exact top k; NaN if there is none."""

    @property
    def exact(self) -> bool:
        return self.recall == 1.0


class Memories:
    """A data set with traces, in an engine.

    Parameters
    ----------
    dataset : Dataset
    vivid : float
        Share of rows with a salience of at least 0.8.
    policy : Policy
    options : dict
        Further arguments of ``Engine``, such as ``path`` or ``storage``.
    """

    def __init__(
        self, dataset: Dataset, vivid: float, policy: Policy, options: dict[str, Any]
    ) -> None:
        rows = dataset.rows
        self.title = f"{dataset.title}, {vivid:.1%} vivid"
        self.queries = dataset.queries
        self.policy = policy
        self.engine = Engine(rows.shape[1], policy=policy, **supported(Engine, options))
        given = _traces(len(rows), vivid)
        for start in range(0, len(rows), _BLOCK):
            part = slice(start, start + _BLOCK)
            self.engine.add(
                rows[part], now=NOW, **{name: column[part] for name, column in given.items()}
            )
        _accesses(self.engine, given["created"])
        # The engine normalises what it is given: what it stores is what is searched.
        self.rows: Vectors = np.concatenate(
            [
                self.engine.vectors(np.arange(start, min(start + _BLOCK, len(rows))))
                for start in range(0, len(rows), _BLOCK)
            ]
        )
        self.refresh()

    def refresh(self) -> None:
        """Reads the columns of the engine anew, after something moved strengths."""
        self.columns = self.engine.traces()
        law = ReferenceEngine({**self.columns, "policy": self.policy.to_dict()})
        self.vivid, self.recent = law.bonus(
            NOW, self.policy.vividness_weight, self.policy.recency_weight
        )
        self.is_flashbulb = self.columns["salience"] >= FLASHBULB

    def scores(self, similarities: Any, rows: Any = slice(None)) -> Any:
        """Fused scores of similarities to ``rows`` (the last axis)."""
        p = self.policy
        return (
            similarities
            + ramp(similarities, p.vividness_ramp_start, p.vividness_ramp_end) * self.vivid[rows]
            + ramp(similarities, p.recency_ramp_start, p.recency_ramp_end) * self.recent[rows]
        )

    def exact(self, queries: Vectors, k: int = K) -> Answer:
        """The exact fused top k, in float64."""
        wide = _as_searched(queries)
        ids = np.empty((len(queries), 0), np.int64)
        scores = np.empty((len(queries), 0))
        for start in range(0, len(self.rows), _BLOCK // 4):
            part = slice(start, min(start + _BLOCK // 4, len(self.rows)))
            found = self.scores(wide @ self.rows[part].astype(np.float64).T, part)
            best = np.argpartition(-found, min(k, found.shape[1]) - 1, axis=1)[:, :k]
            ids = np.hstack([ids, best + start])
            scores = np.hstack([scores, np.take_along_axis(found, best, axis=1)])
            order = np.lexsort((ids, -scores), axis=1)[:, :k]
            ids = np.take_along_axis(ids, order, axis=1)
            scores = np.take_along_axis(scores, order, axis=1)
        return Answer(ids, scores)

    def quality(self, found: Ids, queries: Vectors, exact: Answer) -> Quality:
        """Recall; a row as good as the last exact one (a tie) counts as found."""
        wide = _as_searched(queries)
        hits = flashbulbs = wanted = 0
        for query, ids, best, scores in zip(wide, found, exact.ids, exact.scores, strict=True):
            unique = np.unique(ids[ids >= 0])
            own = self.scores(self.rows[unique].astype(np.float64) @ query, unique)
            hits += min(int((own >= scores[-1] - _SAME_SCORE).sum()), len(best))
            vivid = best[self.is_flashbulb[best]]
            ties = scores[self.is_flashbulb[best]] <= scores[-1] + _SAME_SCORE
            wanted += len(vivid)
            flashbulbs += int((np.isin(vivid, unique) | ties).sum())
        return Quality(hits / exact.ids.size, flashbulbs / wanted if wanted else float("nan"))

    def agrees(self, found: Any, exact: Answer) -> bool:
        """Whether a ``SearchResult`` is the exact answer: ids, except among ties, and scores."""
        if found.ids.shape != exact.ids.shape:
            return False
        same = np.abs(found.scores - exact.scores) <= _SAME_SCORE
        tied = np.abs(exact.scores[:, :, None] - exact.scores[:, None, :]) <= _SAME_SCORE
        alone = tied.sum(axis=2) == 1
        alone[:, -1] = False  # what it may tie with is not in the list
        return bool(same.all() and (found.ids == exact.ids)[alone].all())


def _as_searched(queries: Vectors) -> Floats:
    """Queries as the engine takes them: of unit norm anew, which may move their last bit."""
    return to_unit_rows(queries, queries.shape[1], "queries").astype(np.float64)


def supported(kind: type, options: dict[str, Any]) -> dict[str, Any]:
    """The options, if ``kind`` takes them. What it lacks may only have the value it implies."""
    known = inspect.signature(kind).parameters
    implied = {"storage": "fp32", "approximate": False}
    for name, value in options.items():
        if name not in known and value != implied.get(name):
            raise SystemExit(f"this version of {kind.__name__} has no {name}={value!r}")
    return {name: value for name, value in options.items() if name in known}


def _traces(count: int, vivid: float) -> dict[str, NDArray[Any]]:
    """A year: mostly everyday, 8 % important, a few flashbulbs (some pinned), 1 % open tasks."""
    rng = np.random.default_rng(_SEED)
    salience = 0.5 * rng.beta(1.5, 4.0, count)
    kind = rng.random(count)
    important = kind < 0.08
    salience[important] = rng.uniform(0.5, 0.8, important.sum())
    flashbulb = kind > 1.0 - vivid
    salience[flashbulb] = rng.uniform(0.8, 1.0, flashbulb.sum())
    return {
        "salience": salience,
        "created": NOW - DAY * rng.uniform(0.0, 365.0, count),
        "pinned": flashbulb & (rng.random(count) < 0.02),
        "urgency": np.where(rng.random(count) < 0.01, rng.random(count), np.nan),
    }


def _accesses(engine: Engine, created: Floats) -> None:
    """Every month one row in a hundred of those that exist is recalled."""
    rng = np.random.default_rng(_SEED + 1)
    for month in range(11, -1, -1):
        moment = NOW - 30.0 * DAY * month
        there = np.flatnonzero(created < moment)
        engine.touch(rng.choice(there, len(there) // 100, replace=False), moment)
