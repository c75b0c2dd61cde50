"""What of a batch is there already: repeats of the same text, and what lies very near.

It is worked out under the store's lock, before anything is written. A *place* is where a draft's
like lies: the id of a memory, or ``~i`` for the i-th draft of the same batch.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from flashbulb import _core, _reading
from flashbulb._check import is_one_of
from flashbulb._columns import to_unit_rows
from flashbulb._draft import Draft
from flashbulb._judging import Arousal
from flashbulb._store import Space, Store
from flashbulb._traces import STATUS
from flashbulb.engine import Engine
from flashbulb.photograph.extracted import from_json
from flashbulb.policy import Policy
from flashbulb.records import NearDuplicate, Occurrence, Record

__all__ = [
    "Answers",
    "OnDuplicate",
    "Question",
    "Verdict",
    "ask",
    "brought_back",
    "check_on_duplicate",
    "plan",
    "remembered",
]

Outcome: TypeAlias = Literal["occurrence", "keep"]
OnDuplicate: TypeAlias = "Outcome | Callable[[Record, str], Outcome]"
Answers: TypeAlias = "dict[tuple[int, int, str], Outcome]"
"""By number of the draft, place of its like, and the text there."""

_CHUNK = 256  # rows of a batch that are compared with each other at once
_SLACK = 1e-5  # of a product in float32


class Verdict(NamedTuple):
    """What becomes of a draft."""

    repeats: int | None
    """The place that it is one more occurrence of; None: it becomes a memory."""
    near: tuple[int, float] | None
    """The nearest place and its cosine, from the policy's threshold on."""


class Question(NamedTuple):
    """What the caller's function must say before a draft can be stored."""

    key: tuple[int, int, str]
    existing: Record
    text: str


def check_on_duplicate(value: OnDuplicate) -> OnDuplicate:
    if callable(value) or is_one_of(value, get_args(Outcome)):
        return value
    raise ValueError(
        "on_duplicate must be 'occurrence', 'keep' or a callable that returns one of these, "
        f"got {value!r:.80}"
    )


def ask(decide: Callable[[Record, str], Outcome], question: Question) -> Outcome:
    """What the caller's function says; to be called without any lock."""
    outcome = decide(question.existing, question.text)
    if not is_one_of(outcome, get_args(Outcome)):
        raise ValueError(f"on_duplicate must return 'occurrence' or 'keep', got {outcome!r:.80}")
    return outcome


def plan(
    store: Store,
    space: Space,
    drafts: Sequence[Draft],
    vectors: NDArray[np.float32],
    arousals: Sequence[Arousal],
    rule: Outcome | Answers,
) -> tuple[list[Verdict], list[Question]]:
    """A verdict for each draft, and what must be asked before they hold.

    Parameters
    ----------
    rule : str or mapping
        The same outcome for every repeat, and what is near is kept; or what the caller's function
        said so far.
    """
    database, engine = store.database, space.engine
    nearest = _Nearest(engine, vectors, store.policy.near_duplicate_cosine)
    first: dict[bytes, int] = {}  # of the batch itself
    verdicts: list[Verdict] = []
    questions: list[Question] = []
    for number, draft in enumerate(drafts):
        digest = draft.digest()
        known = []
        if space.number is not None:
            known = database.same_digest(space.number, digest, STATUS["completed"])
        same = known[0] if known else first.get(digest)
        outcome: Outcome = "keep"
        near = None
        if isinstance(rule, str):
            if same is not None:
                outcome = rule
            if outcome == "keep":
                near = nearest.of(number)
        else:
            near = nearest.of(number)
            if same is None and near is not None and not _is_completed(engine, near[0]):
                same = near[0]
            if same is not None:
                if same < 0:
                    existing = _to_be(drafts[~same], arousals[~same], store.policy)
                else:
                    existing = _reading.records(store, space, [same], draft.now)[0]
                key = number, same, existing.text
                if key in rule:
                    outcome = rule[key]
                else:
                    questions.append(Question(key, existing, draft.text))
        if outcome == "keep":
            first.setdefault(digest, ~number)
            nearest.enter(number)
            verdicts.append(Verdict(None, near))
        else:
            verdicts.append(Verdict(same, None))
    return verdicts, questions


def brought_back(store: Store, space: Space, drafts: Sequence[Draft]) -> Space:
    """The namespace after what is remembered again has left the archive."""
    if not space.archived or space.number is None:
        return space
    completed = STATUS["completed"]
    same = [store.database.same_digest(space.number, draft.digest(), completed) for draft in drafts]
    return store.restore(space, [known[0] for known in same if known])


def remembered(
    store: Store,
    space: Space,
    drafts: Sequence[Draft],
    ids: Sequence[int],
    verdicts: Sequence[Verdict],
) -> list[Record]:
    """The records of a batch that was stored, each with its near duplicate."""
    records = _reading.records(store, space, ids, [draft.now for draft in drafts])
    near = {
        number: (ids[~place] if place < 0 else place, cosine)
        for number, (_, found) in enumerate(verdicts)
        if found is not None
        for place, cosine in [found]
    }
    rows = store.database.rows([id for id, _ in near.values()])
    for number, (id, cosine) in near.items():
        like = NearDuplicate(id, rows[id].text, cosine)
        records[number] = replace(records[number], near_duplicate=like)
    return records


def _is_completed(engine: Engine, place: int) -> bool:
    """A completed task is over: nothing becomes an occurrence of it."""
    return place >= 0 and bool(engine.traces([place])["status"][0] == STATUS["completed"])


def _to_be(draft: Draft, arousal: Arousal, policy: Policy) -> Record:
    """What is known of a draft before it is stored; it has no id yet."""
    metadata = json.loads(draft.metadata)
    return Record(
        id=0,
        text=draft.text,
        created=draft.now,
        occurrences=(Occurrence(draft.now, metadata),),
        tags=draft.tags,
        metadata=metadata,
        arousal=arousal.score,
        arousal_source=arousal.source,
        surprise=None,
        importance=None,
        flashbulb=arousal.score >= policy.flashbulb_threshold,
        salience=arousal.score,
        floor=policy.floor_for(arousal.score),
        pinned=False,
        status="none" if draft.urgency is None else "open",
        urgency=draft.urgency,
        vividness=1.0,
        effective_vividness=1.0,
        access_count=0,
        last_access=None,
        archived=None,
        who=draft.who,
        what=draft.what,
        when=draft.when,
        where=draft.where,
        photograph=from_json(None, draft.who, draft.what, draft.when, draft.where),
    )


class _Nearest:
    """The place of the highest cosine to each row of a batch, if that is high enough.

    The store is searched once for all rows. Rows of the batch that became memories are searched in
    an engine of their own, a chunk later; within a chunk all products are made at once.
    """

    def __init__(self, engine: Engine, vectors: NDArray[np.float32], threshold: float) -> None:
        self._threshold = threshold
        self._off = threshold > 1.0 + _SLACK
        if not self._off:
            self._rows = to_unit_rows(vectors, engine.dim, "vectors")
            self._stored = _best(engine, self._rows)
            self._batch: Engine | None = None  # of the chunks before
            self._begin(0)

    def _come_to(self, row: int) -> None:
        while row >= self._start + _CHUNK:
            entered = self._start + np.flatnonzero(self._entered)
            if self._batch is None:
                self._batch = Engine(self._rows.shape[1], approximate=False)
            self._batch.add(self._rows[entered], ids=entered, now=0.0)
            self._begin(self._start + _CHUNK)

    def _begin(self, start: int) -> None:
        """The chunk of rows from `start` on."""
        rows = self._rows[start : start + _CHUNK]
        self._start = start
        self._entered = np.zeros(len(rows), np.bool_)
        self._earlier = _best(self._batch, rows)
        self._products = np.tril(rows @ rows.T, -1) if len(rows) > 1 else np.zeros((1, 1))
        self._highest = self._products.max(axis=1).tolist()

    def of(self, row: int) -> tuple[int, float] | None:
        """Rows are asked for in their order."""
        if self._off:
            return None
        self._come_to(row)
        number = row - self._start
        place, highest = self._stored[row]
        earlier, cosine = self._earlier[number]
        if cosine > highest:
            place, highest = ~earlier, cosine
        wanted = max(self._threshold, highest) - _SLACK
        if self._highest[number] >= wanted:
            close = self._entered[:number] & (self._products[number, :number] >= wanted)
            for other in (self._start + np.flatnonzero(close)).tolist():
                cosine = _core.inner_product(self._rows[row], self._rows[other])
                if cosine > highest:
                    place, highest = ~other, cosine
        return (place, highest) if highest >= self._threshold else None

    def enter(self, row: int) -> None:
        """The row becomes a memory."""
        if not self._off:
            self._come_to(row)
            self._entered[row - self._start] = True


def _best(engine: Engine | None, rows: NDArray[np.float32]) -> list[tuple[int, float]]:
    """The nearest memory of each row and its cosine, minus infinity if there is none."""
    if engine is None or not len(engine):
        return [(0, -math.inf)] * len(rows)
    found = engine.search(rows, 1, now=0.0, vividness_weight=0.0, recency_weight=0.0, exact=True)
    return list(zip(found.ids[:, 0].tolist(), found.cosines[:, 0].tolist(), strict=True))
