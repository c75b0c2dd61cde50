"""Another text for a stored memory, with its vector, words and digest; the old one is kept."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from flashbulb._draft import digest_of
from flashbulb._store import Space, Store
from flashbulb.photograph import Photographer
from flashbulb.photograph.extracted import from_json, photograph_json
from flashbulb.reconsolidation import Change
from flashbulb.records import Version
from flashbulb.storage.rows import Row
from flashbulb.storage.translation import decoding

__all__ = ["Present", "developed", "history", "present", "rewrite"]


class Present(NamedTuple):
    """What decides how a memory may change."""

    row: Row
    protected: bool
    """Its text must stay: it is vivid."""


def present(store: Store, space: Space, id: int) -> Present:
    row = store.database.rows([id])[id]
    salience = float(space.engine.traces([id])["salience"][0])
    return Present(row, salience > store.policy.reconsolidation_protects_above)


def developed(
    photographer: Photographer, row: Row, change: Change, context: str, now: float
) -> str | None:
    """The photograph of a memory with the text of a change, as the store keeps it.

    What is known stays. What the new words of a flashbulb say fills empty fields, times read from
    the moment of the change; of a text that was rewritten nothing is known that the caller did not
    say, since what was extracted had its place in the old one.
    """
    if not change.text.startswith(row.text):
        return None
    if not row.flashbulb:
        return row.photograph
    known = from_json(row.photograph, row.who, row.what, row.when, row.where)
    given = {name: field.value for name, field in known.items()}
    start = len(row.text)
    found = photographer.photograph(change.text[start:], created=now, context=context, given=given)
    for name, field in found.items():
        if name not in known:
            span = None if field.span is None else (field.span[0] + start, field.span[1] + start)
            known[name] = replace(field, span=span)
    return photograph_json(known)


def rewrite(
    store: Store,
    space: Space,
    id: int,
    change: Change,
    vector: NDArray[np.float32],
    photograph: str | None,
    now: float,
) -> None:
    """Give a memory the text of a change, its vector and photograph, in one transaction.

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
        photograph=photograph,
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
