"""Storing drafts: repeats, surprise, salience, pins; all of a batch or nothing."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from flashbulb._draft import Draft
from flashbulb._judging import Arousal
from flashbulb._store import Space, Store
from flashbulb.photograph import FIELDS, Extracted, Photographer
from flashbulb.photograph.extracted import photograph_json
from flashbulb.photograph.taking import Event
from flashbulb.storage.rows import Row
from flashbulb.surprise import Surprise

__all__ = ["Photograph", "store_drafts", "take"]

Photograph: TypeAlias = "dict[str, Extracted]"

log = logging.getLogger("flashbulb")


def take(
    photographer: Photographer, remembered: Sequence[Draft | Row], wanted: Sequence[bool]
) -> list[Photograph | None]:
    """Photographs of those that are wanted of what is or was remembered.

    What a caller said goes first.
    """
    chosen = [_event(each) for each, is_wanted in zip(remembered, wanted, strict=True) if is_wanted]
    taken = iter(photographer.take(chosen))
    return [next(taken) if is_wanted else None for is_wanted in wanted]


def _event(remembered: Draft | Row) -> Event:
    given = {name: getattr(remembered, name) for name in FIELDS}
    if isinstance(remembered, Draft):
        return Event(remembered.text, remembered.now, remembered.context, given)
    return Event(remembered.text, remembered.created, remembered.deferred_context, given)


def store_drafts(
    store: Store,
    space: Space,
    drafts: Sequence[Draft],
    vectors: NDArray[np.float32],
    arousals: Sequence[Arousal],
    photographs: Sequence[Photograph | None],
    repeats: Sequence[int | None],
) -> list[int]:
    """Store the drafts in one transaction, under the store's lock; return an id for each.

    `repeats` names the memory that a draft is one more occurrence of: its id, or ``~i`` for what
    the i-th draft has become; None: it becomes a memory of its own.

    The engine gets the rows inside the transaction, because its law of initial strength and its
    unit vectors are what the database keeps. If anything fails, the rows leave the engine again;
    their ids are not used a second time.
    """
    batch = _Batch(store, space, vectors)
    first = store.next_id
    committed = False
    try:
        with store.write(when_due=True):
            ids: list[int] = []
            events = zip(drafts, vectors, arousals, photographs, strict=True)
            for event, like in zip(events, repeats, strict=True):
                repeated = ids[~like] if like is not None and like < 0 else like
                ids.append(batch.store(*event, repeated))
            batch.finish()
        committed = True
        batch.apply()
    except Exception:
        if committed or batch.gave_way:
            store.discard(space)
        else:
            space.engine.remove(np.arange(first, store.next_id))
        raise
    return ids


class _Waiting(NamedTuple):
    """A row for the engine."""

    id: int
    vector: NDArray[np.float32]
    salience: float
    urgency: float | None
    tags: tuple[str, ...]
    pinned: bool
    created: float


class _Batch:
    """What a transaction adds to a namespace, and what follows from it once it is committed."""

    def __init__(self, store: Store, space: Space, vectors: NDArray[np.float32]) -> None:
        self._store = store
        self._space = space
        self._database = store.database
        self._detector = None if space.detector is None else space.detector.copy()
        self._ahead = None if self._detector is None else self._detector.look_ahead(vectors)
        self._number = space.number
        self._pins = set(space.surprise_pins)
        self._refused = space.refused_pins
        self._tags: set[str] = set()
        self._waiting: list[_Waiting] = []
        self.added: dict[int, str] = {}
        self.gave_way: dict[int, float] = {}
        """Memories from before that lose their pin, and when."""

    def store(
        self,
        draft: Draft,
        vector: NDArray[np.float32],
        arousal: Arousal,
        photograph: Photograph | None,
        repeated: int | None,
    ) -> int:
        if self._number is None:
            self._number = self._database.create_namespace(self._space.name)
        policy, detector = self._store.policy, self._detector
        surprise, by_surprise, salience = None, False, arousal.score
        if detector is not None and self._ahead is not None:
            seen = self._ahead.next()
            keys = [_tag_key(tag) for tag in draft.tags]
            self._tags.update(keys)
            surprise = detector.judge(seen, keys, draft.now)
            by_surprise = detector.is_flashbulb(surprise)
            if by_surprise:
                surprise = surprise._replace(importance=1.0)
            salience = max(salience, detector.salience(surprise))
            detector.take(seen, keys, draft.now)
        if repeated is not None:
            self._database.add_occurrence(repeated, self._number, draft.now, draft.metadata)
            return repeated
        self._store.check_room(1)
        id = self._store.next_id
        self._store.next_id += 1
        pinned = by_surprise and self._may_pin(id, surprise, arousal.score, draft.now)
        if by_surprise and photograph is None:  # no LLM is asked while the lock is held
            (photograph,) = take(Photographer(), [draft], [True])
        self._database.insert(
            Row(
                id=id,
                namespace=self._number,
                **draft.columns(),
                arousal=arousal.score,
                arousal_source=arousal.source,
                surprise=None if surprise is None else surprise.z,
                importance=None if surprise is None else surprise.importance,
                flashbulb=int(by_surprise or arousal.score >= policy.flashbulb_threshold),
                pinned_by="surprise" if pinned else None,
                photograph=photograph_json(photograph or {}),
                deferred=int(arousal.deferred),
                deferred_context=draft.context if arousal.deferred else "",
            )
        )
        self.added[id] = draft.text
        self._waiting.append(
            _Waiting(id, vector, salience, draft.urgency, draft.tags, pinned, draft.now)
        )
        if self._ahead is not None:
            self._ahead.enter(id)  # where the next one looks for its neighbours
        return id

    def _enter_engine(self) -> None:
        if self._waiting:
            rows = self._waiting
            self._space.engine.add(
                np.array([row.vector for row in rows]),
                salience=np.array([row.salience for row in rows]),
                urgency=np.array([np.nan if row.urgency is None else row.urgency for row in rows]),
                tags=[row.tags for row in rows],
                created=np.array([row.created for row in rows]),
                pinned=np.array([row.pinned for row in rows]),
                ids=np.array([row.id for row in rows], dtype=np.int64),
                now=max(row.created for row in rows),
            )
            self._waiting = []

    def _may_pin(self, id: int, surprise: Surprise | None, arousal: float, now: float) -> bool:
        """Within the limit, or in the place of what was less surprising, which stays a flashbulb
        and fades from now on; what is critical as well needs no room."""
        policy = self._store.policy
        rows = len(self._space.engine) + len(self._waiting) + 1
        limit = max(policy.max_surprise_pins, policy.max_surprise_pin_share * rows)
        if len(self._pins) < limit or arousal >= policy.flashbulb_threshold:
            self._pins.add(id)
            return True
        assert surprise is not None
        assert self._number is not None
        least = self._database.least_surprising_pin(self._number, policy.flashbulb_threshold)
        unpinned = id
        if least is not None and least[1] < surprise.z:
            unpinned = least[0]
            self._give_way(unpinned, now)
            self._pins.add(id)
        self._refused += 1
        # Once in a namespace is news; stats() counts the rest.
        log.log(
            logging.WARNING if self._refused == 1 else logging.DEBUG,
            "memory %d is a flashbulb by surprise, but %d of namespace %r that surprise more are "
            "pinned already: it is left unpinned; stats() counts such memories",
            unpinned,
            len(self._pins),
            self._space.name,
        )
        return unpinned != id

    def _give_way(self, id: int, now: float) -> None:
        """Take the pin of a memory."""
        self._database.set_pinned_by(id, None)
        self._pins.discard(id)
        for i, row in enumerate(self._waiting):
            if row.id == id:
                self._waiting[i] = row._replace(pinned=False)
                return
        self.gave_way[id] = now

    def finish(self) -> None:
        """The rest of the transaction."""
        if self._number is None:
            return
        self._enter_engine()
        ids = np.array(list(self.added), dtype=np.int64)
        engine = self._space.engine
        self._database.insert_strengths(ids, engine.traces(ids), engine.vectors(ids))
        if self._detector is not None:
            detector = self._detector
            self._database.set_surprise_state(self._number, detector.mode, detector.state())
            seen = {tag: detector.last_seen[tag] for tag in sorted(self._tags)}
            self._database.set_last_seen(self._number, seen)
        if self._refused != self._space.refused_pins:
            self._database.set_refused_pins(self._number, self._refused)
        for id, now in self.gave_way.items():
            engine.unpin(id, now=now)
            changed = np.array([id], dtype=np.int64)
            self._database.update_traces(changed, engine.traces(changed))
            self._space.dirty.discard(id)

    def apply(self) -> None:
        """Bring what is derived in RAM to what was committed."""
        space = self._space
        space.number = self._number
        if self._detector is not None:
            self._detector.settle()
        space.detector = self._detector
        space.surprise_pins = self._pins
        space.refused_pins = self._refused
        if space.lexical is not None:
            space.lexical.add(self.added.items())


def _tag_key(tag: str) -> str:
    """What the surprise statistics know of a tag: they outlive a forgotten one."""
    return hashlib.blake2b(tag.encode(), digest_size=8).hexdigest()
