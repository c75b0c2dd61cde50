"""Why a memory is not among the hits: its place, and its terms beside those of the last hit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from flashbulb import _reading
from flashbulb._check import same_json
from flashbulb._recalling import Question, hits_at, ranking
from flashbulb._store import Space, Store
from flashbulb.errors import MemoryNotFound
from flashbulb.records import Hit, Record, rounded_terms

__all__ = ["Term", "WhyNot", "not_found", "score_terms", "why_not"]


class Term(NamedTuple):
    """One term of the score of two memories, to 4 places."""

    name: str
    own: float
    kth: float
    difference: float


@dataclass(frozen=True, slots=True)
class WhyNot:
    """Where a memory stands in a recall, and what keeps it from a better place.

    Attributes
    ----------
    id, k : int
        The memory that was asked about, and how many hits were.
    excluded : tuple of str
        The filters that it does not pass, in words; empty: it passes them all.
    rank : int or None
        Its place among all that pass the filters, 1 is the best; None if it does not pass.
    passing : int
        How many pass the filters.
    below_min_score : bool
        Whether `min_score` alone would have cut it.
    own : Hit or None
        The memory with its terms; None if it does not pass.
    kth : Hit or None
        The hit at place k, or the last one if fewer pass; None if there is none.
    """

    id: int
    k: int
    excluded: tuple[str, ...]
    rank: int | None
    passing: int
    min_score: float | None
    own: Hit | None
    kth: Hit | None

    @property
    def below_min_score(self) -> bool:
        return (
            self.own is not None and self.min_score is not None and self.own.score < self.min_score
        )

    @property
    def found(self) -> bool:
        """Whether an exact recall with this k has it among its hits."""
        return self.rank is not None and self.rank <= self.k and not self.below_min_score

    def terms(self) -> list[Term]:
        """The terms of both scores, the score last; the printed numbers add up in every column."""
        if self.own is None or self.kth is None:
            return []
        own, kth = score_terms(self.own), score_terms(self.kth)
        return [
            Term(name, own[name], kth[name], round(own[name] - kth[name], 4) + 0.0) for name in own
        ]

    def verdict(self) -> str:
        """The answer in a sentence or two."""
        if self.excluded:
            return f"memory {self.id} is left out: {'; '.join(self.excluded)}"
        assert self.own is not None
        place = f"memory {self.id} is at place {self.rank} of {self.passing}"
        if self.below_min_score:
            return f"{place}; its score {self.own.score:.4f} is below min_score {self.min_score:g}"
        if self.found:
            return f"{place}: among the best {self.k}"
        if self.kth is None:
            return f"{place}, and k is 0"
        score = self.terms()[-1]
        lost = min(self.terms()[:-1], key=lambda term: term.difference)
        gap = f"{-score.difference:.4f} below place {self.k}, memory {self.kth.id}"
        if lost.difference >= 0:  # equal to all places
            return f"{place}: {gap}"
        return f"{place}: {gap}; most is lost by {lost.name}, {lost.difference:+.4f}"

    def explain(self) -> str:
        """The verdict and, if the memory passes the filters, the terms beside those of place k."""
        lines = [self.verdict()]
        if self.kth is not None and self.kth.id != self.id and self.own is not None:
            place = f"memory {self.kth.id}"
            lines.append(f"{'':10} {f'memory {self.id}':>12} {place:>12} {'difference':>12}")
            lines += [
                f"{term.name:10} {term.own:12.4f} {term.kth:12.4f} {term.difference:+12.4f}"
                for term in self.terms()
            ]
        return "\n".join(lines)


def score_terms(hit: Hit) -> dict[str, float]:
    """Meaning, words, vividness, recency, and the score that they add up to, to 4 places."""
    words = hit._weights.lexical * hit.lexical
    names = ("meaning", "words", "vividness", "recency")
    parts = (hit.similarity - words, words, hit.vividness_bonus, hit.recency_bonus)
    terms = dict(zip(names, rounded_terms(hit.score, parts), strict=True))
    return {**terms, "score": round(hit.score, 4)}


def why_not(
    store: Store, space: Space, question: Question, vector: NDArray[np.float32], id: int
) -> WhyNot:
    """Rank a memory of the namespace for a question; changes nothing."""
    ranked = ranking(store, space, question, vector, len(space.engine), exact=True)
    passing = ranked.result.ids
    places = np.flatnonzero(passing == id)
    own = kth = rank = None
    excluded: tuple[str, ...] = ()
    if id in space.archived:
        excluded = ("it is in the archive, where only include_archived=True looks",)
    elif len(places):
        rank = int(places[0]) + 1
        last = min(question.k, len(passing)) - 1
        chosen = [rank - 1] if last < 0 else [rank - 1, last]
        own, *others = hits_at(store, space, question, ranked, np.array(chosen))
        kth = others[0] if others else None
    else:
        record = _reading.records(store, space, [id], question.now)[0]
        excluded = tuple(_reasons(record, question))
    return WhyNot(id, question.k, excluded, rank, len(passing), question.min_score, own, kth)


def _reasons(record: Record, question: Question) -> Iterator[str]:
    """The filters that a memory does not pass, in words."""
    missing = [tag for tag in question.tags or () if tag not in record.tags]
    if missing:
        yield f"it lacks the tag{'s' * (len(missing) > 1)} {', '.join(map(repr, missing))}"
    if question.status not in (None, record.status):
        yield f"its status is {record.status!r}, asked for is {question.status!r}"
    in_time = [
        occurrence
        for occurrence in record.occurrences
        if (question.since is None or occurrence.time >= question.since)
        and (question.until is None or occurrence.time < question.until)
    ]
    if not in_time:
        yield "it did not occur between since and until"
        in_time = list(record.occurrences)
    wanted = question.metadata
    if not any(
        all(
            key in occurrence.metadata and same_json(occurrence.metadata[key], value)
            for key, value in wanted.items()
        )
        for occurrence in in_time
    ):
        yield f"it did not occur with the metadata {wanted!r:.80}"


def not_found(store: Store, space: Space, id: int) -> MemoryNotFound:
    """The error for an id that is not in this namespace: it says why."""
    here = f"no memory {id} in namespace {space.name!r}"
    if store.database.rows([id]):
        return MemoryNotFound(f"{here}: it belongs to another one")
    if id < store.next_id:
        return MemoryNotFound(f"{here}: it was forgotten")
    return MemoryNotFound(f"{here}: no memory has had this id yet")
