"""Another text for a stored memory, with its vector, words and digest; the old one is kept."""

from __future__ import annotations

import json
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from flashbulb._draft import digest_of
from flashbulb._store import Space, Store
from flashbulb.reconsolidation import Change
from flashbulb.records import Version
from flashbulb.storage.translation import decoding

__all__ = ["Present", "history", "present", "rewrite"]


class Present(NamedTuple):
    """What decides how a memory may change."""

    text: str
    protected: bool
    """Its text must stay: it is vivid."""


def present(store: Store, space: Space, id: int) -> Present:
    row = store.database.rows([id])[id]
    salience = float(space.engine.traces([id])["salience"][0])
    return Present(row.text, salience > store.policy.reconsolidation_protects_above)


def rewrite(
    store: Store, space: Space, id: int, change: Change, vector: NDArray[np.float32], now: float
) -> None:
    """Give a memory the text of a change and its vector, in one transaction.

    Ids, tags, occurrences, arousal and salience stay. An enhancement strengthens, at most once an
    hour as everything that does.
    """
    ids = np.array([id], dtype=np.int64)
    engine = space.engine
    row = store.database.rows([id])[id]
    urgency = float(engine.traces(ids)["urgency"][0])
    with decoding(store.path):
        tags = json.loads(row.tags)
    facts = row.who, row.what, row.when, row.where
    new = row._replace(
        text=change.text,
        digest=digest_of(change.text, tags, facts, None if urgency != urgency else urgency),
        # What was extracted has its place in the old text.
        photograph=row.photograph if change.text.startswith(row.text) else None,
    )
    earlier = store.database.versions([id]).get(id, [])
    since = max(now, earlier[-1][0] if earlier else row.created)  # time does not run backwards
    with store.changing(space) as database:
        engine.replace_vectors(ids, vector[np.newaxis])
        if change.reason == "enhanced":
            engine.strengthen(ids, store.policy.reconsolidation_boost, now)
        database.replace_text(new, engine.vectors(ids), since, change.reason)
        database.update_traces(ids, engine.traces(ids))
        if space.lexical is not None:
            space.lexical.replace(id, row.text, change.text)


def history(store: Store, id: int) -> list[Version]:
    """The texts of a memory, the oldest first, the last one the present."""
    row = store.database.rows([id])[id]
    earlier = store.database.versions([id]).get(id, [])
    since = [(row.created, "remembered"), *((time, reason) for time, _, reason in earlier)]
    texts = [*(text for _, text, _ in earlier), row.text]
    return [Version(text, time, reason) for text, (time, reason) in zip(texts, since, strict=True)]
