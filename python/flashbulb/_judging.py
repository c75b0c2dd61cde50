"""How critical what is remembered is: asked before it is stored, or, of an LLM, afterwards.

A detector may take its time: none is called with a lock held.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from flashbulb._check import check_text, check_unit
from flashbulb._draft import Draft
from flashbulb._store import Space, Store
from flashbulb.arousal import ArousalDetector, ArousalResult
from flashbulb.photograph import Extracted
from flashbulb.photograph.extracted import photograph_json
from flashbulb.storage.rows import Row
from flashbulb.surprise import Surprise

__all__ = ["Arousal", "Detector", "KeptAnswers", "judge", "settle"]

MOST_BAD = 3
"""After so many answers that are no judgement an LLM is not asked about a memory again."""

_UNANSWERED = MOST_BAD
"""What counts a question without an answer: more than all bad replies that are counted."""

_COMPLETED = 2  # the engine's number


@dataclass(frozen=True, slots=True)
class Arousal:
    """How critical a text is, and who said so."""

    score: float
    source: str
    deferred: int = 0
    """An LLM is still to be asked: 1, and 1 more for each answer of it that was no judgement, and
    ``MOST_BAD`` more for each question that it did not answer. The lowest are asked about first."""


class Detector(Protocol):
    """What judges the arousal of a text: an ``ArousalDetector``, or anything like it."""

    def detect(self, text: str, context: str = "") -> Any:
        """An object with a ``score`` in [0, 1] and a ``source``, a str that is not blank.

        What follows from the score (salience, floor, flashbulb) is the policy's.
        """


class KeptAnswers:
    """What an LLM said, kept in the store until the text is forgotten."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def get(self, text: str, question: str) -> str | None:
        with self._store.locked():
            kept = self._store.database.cached(text, question)
        return None if kept is None else kept[0]

    def put(self, text: str, question: str, answer: str) -> None:
        with self._store.locked():
            self._store.database.cache(text, question, answer, time.time())


def judge(
    detector: Detector | None, drafts: Sequence[Draft], vectors: NDArray[np.float32], store: Store
) -> list[Arousal]:
    """How critical the drafts are; with None that is not asked.

    An ``ArousalDetector`` gets the embeddings, and keeps what its LLM says in the store; any other
    gets the texts and their contexts.
    """
    asked = [i for i, draft in enumerate(drafts) if draft.arousal is None]
    if detector is None:
        found = [Arousal(0.0, "off")] * len(asked)
    elif isinstance(detector, ArousalDetector):
        results = detector.detect_many(
            [drafts[i].text for i in asked],
            [drafts[i].context for i in asked],
            vectors=[vectors[i] for i in asked],
            cache=KeptAnswers(store),
        )
        found = [Arousal(result.score, result.source, _deferred(result, 1)) for result in results]
    else:
        found = [_checked(detector.detect(drafts[i].text, drafts[i].context)) for i in asked]
    by_place = dict(zip(asked, found, strict=True))
    return [
        Arousal(draft.arousal, "given") if draft.arousal is not None else by_place[i]
        for i, draft in enumerate(drafts)
    ]


def _deferred(result: ArousalResult, before: int) -> int:
    """What is noted of a memory after its LLM was asked, or was to be: 0 if that is settled."""
    if result.bad_reply:
        return before + 1 if (before - 1) % _UNANSWERED + 1 < MOST_BAD else 0
    if result.deferred:
        return before + _UNANSWERED * result.unanswered
    return 0


def _checked(result: Any) -> Arousal:
    if not (hasattr(result, "score") and hasattr(result, "source")):
        raise TypeError(
            "a detector's detect(text, context) must return an object with a score in [0, 1] and "
            f"a source, such as flashbulb.ArousalResult; got {type(result).__name__} {result!r:.80}"
        )
    return Arousal(
        check_unit(result.score, "the detector's score"),
        check_text(result.source, "the detector's source"),
    )


def settle(
    store: Store,
    space: Space,
    asked: Sequence[Row],
    results: Sequence[ArousalResult],
    photographs: Sequence[dict[str, Extracted] | None],
    now: float,
) -> int:
    """Give memories the scores that an LLM has settled, under the store's lock; say how many.

    What has been forgotten, changed or settled meanwhile stays as it is. What is still to be asked
    about does too, but that it was asked about is counted; after the last bad reply that is allowed
    the score of the cheaper stages is settled.
    """
    present = store.database.rows([row.id for row in asked])
    answered = [
        (row, result, photograph)
        for row, result, photograph in zip(asked, results, photographs, strict=True)
        if row.id in present
        and present[row.id].archived is None
        and (present[row.id].text, present[row.id].deferred) == (row.text, row.deferred)
    ]
    again = {
        row.id: deferred
        for row, result, _ in answered
        if (deferred := _deferred(result, row.deferred))
    }
    counted = {
        row.id: again[row.id]
        for row, _, _ in answered
        if again.get(row.id, row.deferred) != row.deferred
    }
    if counted:
        with store.changing(space) as database:
            for id, deferred in counted.items():
                database.set_deferred(id, deferred)
    settled = [each for each in answered if each[0].id not in again]
    if not settled:
        return 0
    policy, engine = store.policy, space.engine
    ids = np.array([row.id for row, _, _ in settled], dtype=np.int64)
    traces = engine.traces(ids)
    vividness = engine.vividness(ids, now=now)
    moved = False
    with store.changing(space) as database:
        for i, (row, result, photograph) in enumerate(settled):
            salience = max(result.score, _by_surprise(space, row, float(traces["salience"][i])))
            floor = policy.floor_for(salience)
            if traces["status"][i] == _COMPLETED:
                floor = min(floor, float(traces["floor"][i]))
            if (salience, floor) != (traces["salience"][i], traces["floor"][i]):
                moved = True
                traces["salience"][i] = salience
                traces["floor"][i] = floor
                traces["vividness"][i] = max(vividness[i], floor)
                traces["vividness_time"][i] = max(now, traces["vividness_time"][i])
            database.set_arousal(
                row.id,
                result.score,
                result.source,
                flashbulb=result.score >= policy.flashbulb_threshold or row.importance == 1.0,
                photograph=photograph_json(photograph or {}),
            )
        database.update_traces(ids, traces)
    if moved:
        # The engine takes saliences with new rows only: it is read anew.
        fresh = store.load(space.name)
        fresh.lexical = space.lexical
        store.replace(fresh)
    return len(settled)


def _by_surprise(space: Space, row: Row, salience: float) -> float:
    """What surprise contributed to a salience."""
    if salience > row.arousal:
        return salience
    if space.detector is None or row.surprise is None or row.importance is None:
        return 0.0
    surprise = Surprise(row.surprise, row.surprise, 0.0, 0.0, row.importance)
    return min(salience, space.detector.salience(surprise))
