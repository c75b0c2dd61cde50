"""Answering a question: words, the fused search, hits, reinforcement and forgetting."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flashbulb import _reading
from flashbulb._check import (
    check_bool,
    check_count,
    check_filter,
    check_limit,
    check_status,
    check_tags,
    check_text,
)
from flashbulb._store import Space, Store
from flashbulb._time import Time, to_seconds
from flashbulb.engine import SearchResult
from flashbulb.lexical import words as terms_of
from flashbulb.records import Hit, Weights

__all__ = ["Question", "Ranking", "answer", "hits_at", "ranking"]

# Words of questions that ask for what is critical, whatever it is about; lexical terms of them
# decide. Everyday worries ("problem", "trouble") are not among them.
_CRITICAL_TERMS = frozenset(
    terms_of(
        """alarm alert attention blocker breach broken catastrophe catastrophic crisis critical
        disaster emergency failure fatal incident outage serious severe urgency urgent urgently
        Alarm Ausfall Blocker dringend dringende dringenden kritisch kritische kritischen Notfall
        Notfälle Störung Störungen
        alarma averías crisis crítica crítico emergencia fallos graves incidente urgencia urgente
        alarme critique défaillances graves incident panne urgence
        紧急 严重 故障 緊急 重大 障害""",
        query=True,
    )
)


@dataclass(frozen=True, slots=True)
class Question:
    """Arguments of ``recall`` that have been found good."""

    text: str
    k: int
    tags: tuple[str, ...] | None
    metadata: dict[str, Any]
    status: str | None
    since: float | None
    until: float | None
    min_score: float | None
    reinforce: bool
    include_archived: bool
    neutral: bool
    now: float

    @classmethod
    def of(
        cls,
        query: str,
        k: int,
        *,
        tags: Iterable[str] | None,
        filter: Mapping[str, Any] | None,
        status: str | None,
        since: Time | None,
        until: Time | None,
        min_score: float | None,
        reinforce: bool,
        neutral: bool,
        include_archived: bool = False,
        now: float,
    ) -> Question:
        """Check them."""
        return cls(
            text=check_text(query, "query"),
            k=check_count(k, "k"),
            tags=None if tags is None else check_tags(tags),
            metadata=check_filter(filter),
            status=check_status(status),
            since=None if since is None else to_seconds(since, "since"),
            until=None if until is None else to_seconds(until, "until"),
            min_score=check_limit(min_score, "min_score"),
            reinforce=check_bool(reinforce, "reinforce"),
            include_archived=check_bool(include_archived, "include_archived"),
            neutral=neutral,
            now=now,
        )


def answer(
    store: Store, space: Space, question: Question, vector: NDArray[np.float32]
) -> list[Hit]:
    """The hits for a question whose embedding is `vector`, under the store's lock."""
    searched = store.with_archive(space) if question.include_archived else space
    k = min(question.k, len(searched.engine))
    if k == 0:
        return []
    runners_up = store.policy.rif_runners_up if question.reinforce else 0
    ranked = ranking(store, searched, question, vector, k + runners_up)
    found = ranked.result
    returned = np.arange(len(found.ids)) < k
    if question.min_score is not None:
        returned &= found.scores >= question.min_score
    hits = hits_at(store, searched, question, ranked, np.flatnonzero(returned))
    if question.reinforce and hits:
        _reinforce(store, space, question, found, returned)
    return hits


@dataclass(frozen=True, slots=True)
class Ranking:
    """What a search found, and what its scores were made with."""

    result: SearchResult
    words: tuple[NDArray[np.int64], NDArray[np.float64]]
    """The memories that share words with the question, by id, and their lexical scores."""
    weights: Weights

    def lexical(self, ids: NDArray[np.int64]) -> list[float]:
        """The lexical scores of memories."""
        known, scores = self.words
        if not len(known):
            return [0.0] * len(ids)
        places = np.minimum(known.searchsorted(ids), len(known) - 1)
        found: list[float] = np.where(known[places] == ids, scores[places], 0.0).tolist()
        return found


def ranking(
    store: Store,
    space: Space,
    question: Question,
    vector: NDArray[np.float32],
    k: int,
    *,
    exact: bool | None = None,
) -> Ranking:
    """The k best memories that pass the filters; `exact` as for ``Engine.search``."""
    policy = store.policy
    weights = Weights(
        lexical=policy.lexical_weight,
        vividness=0.0 if question.neutral else policy.vividness_weight,
        recency=policy.recency_weight,
        recency_days=policy.recency_days,
        open_task_salience=policy.open_task_salience,
    )
    words = _shared_words(store, space, question.text)
    found = _search(store, space, question, vector, k, words, weights, exact)
    return Ranking(found, words, weights)


def _shared_words(
    store: Store, space: Space, text: str
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The memories that share words with the question, by id, and their lexical scores."""
    if not store.policy.lexical_weight:
        return np.empty(0, np.int64), np.empty(0)
    return store.lexical(space).search(text, store.policy.lexical_saturation)


def _search(
    store: Store,
    space: Space,
    question: Question,
    vector: NDArray[np.float32],
    k: int,
    words: tuple[NDArray[np.int64], NDArray[np.float64]],
    weights: Weights,
    exact: bool | None,
) -> SearchResult:
    since, until = question.since, question.until
    allowed = also = None
    if question.metadata:  # one occurrence must have both the time and the metadata
        allowed = _reading.filtered(store, space, question.metadata, since, until)
        since = until = None
    elif space.number is not None and (since is not None or until is not None):
        also = store.database.occurring(space.number, since, until)
    critical = not _CRITICAL_TERMS.isdisjoint(terms_of(question.text, query=True))
    ids, lexical = words
    return space.engine.search(
        vector,
        k,
        now=question.now,
        tags=question.tags,
        since=since,
        until=until,
        also=also,
        status=question.status,
        allowed=allowed,
        similarity_weight=1.0 - weights.lexical,
        addends=(ids, weights.lexical * lexical),
        vividness_weight=weights.vividness,
        vividness_ramp=store.policy.critical_question_ramp if critical else None,
        exact=exact,
    )


def hits_at(
    store: Store, space: Space, question: Question, ranked: Ranking, chosen: NDArray[np.int64]
) -> list[Hit]:
    """The hits at these places of a ranking."""
    ids = ranked.result.ids[chosen]
    return [
        Hit(
            id=record.id,
            text=record.text,
            score=score,
            similarity=similarity,
            cosine=cosine,
            lexical=lexical,
            vividness_bonus=vividness_bonus,
            recency_bonus=recency_bonus,
            record=record,
            _weights=ranked.weights,
            _now=question.now,
        )
        for record, lexical, score, similarity, cosine, vividness_bonus, recency_bonus in zip(
            _reading.records(store, space, ids.tolist(), question.now),
            ranked.lexical(ids),
            *(term[chosen].tolist() for term in ranked.result[1:]),
            strict=True,
        )
    ]


def _reinforce(
    store: Store,
    space: Space,
    question: Question,
    found: SearchResult,
    returned: NDArray[np.bool_],
) -> None:
    """Strengthen the hits that answer best, weaken the runners-up that resemble them.

    What is used comes back from the archive; what stays there is not weakened.
    """
    similarities = found.similarities[returned]
    margin = store.policy.reinforce_similarity_margin
    used = found.ids[returned][similarities >= similarities.max() - margin]
    others = found.ids[~returned]
    if space.archived:
        space = store.restore(space, used.tolist())
        others = others[~np.isin(others, list(space.archived))]
    space.engine.touch(used, question.now)
    weakened = space.engine.suppress(used, others, now=question.now)
    store.changed(space, np.concatenate((used, weakened)))
