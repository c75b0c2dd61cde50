"""What a user gets back: a memory as it stands at a moment, and a hit of a recall."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypedDict

from flashbulb.photograph import Extracted

__all__ = [
    "Hit",
    "NamespaceCount",
    "NearDuplicate",
    "Occurrence",
    "Record",
    "Stats",
    "Status",
    "Version",
    "Weights",
    "rounded_terms",
]

Status = Literal["none", "open", "completed"]


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One time that a memory was remembered, with the metadata of that time."""

    time: float
    """Seconds since 1970-01-01 UTC."""
    metadata: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Version:
    """A text that a memory has, or had."""

    text: str
    time: float
    """Since when, in seconds since 1970-01-01 UTC."""
    reason: str
    """"remembered", or what reconsolidation did: "enhanced" or "integrated"."""


@dataclass(frozen=True, slots=True)
class NearDuplicate:
    """The memory that was nearest to a new one, when that was remembered."""

    id: int
    text: str
    cosine: float


@dataclass(frozen=True, slots=True)
class Record:
    """A memory as it stands at the `now` of the call that returned it.

    Times are seconds since 1970-01-01 UTC.
    """

    id: int
    text: str
    created: float
    occurrences: tuple[Occurrence, ...]
    """The first is at `created`; each repeat of the same text adds one."""
    tags: tuple[str, ...]
    metadata: dict[str, Any]
    """Of the first occurrence."""
    arousal: float
    """How critical the text is, in [0, 1]."""
    arousal_source: str
    """Which stage of the detector decided; "given" if the caller did, "off" in a neutral store."""
    surprise: float | None
    """z of the embedding against the stream; None if surprise was off."""
    importance: float | None
    """Surprise and temporal novelty in [0, 1]; 1 for a flashbulb by surprise, None if off."""
    flashbulb: bool
    salience: float
    """What the laws use, in [0, 1]."""
    floor: float
    """Vividness never fades below it."""
    pinned: bool
    status: Status
    """"none" (not a task), "open" or "completed"."""
    urgency: float | None
    """Of a task, in [0, 1]; else None."""
    vividness: float
    """Present strength v, in [0, 1]."""
    effective_vividness: float
    """v with the task terms."""
    access_count: int
    last_access: float | None
    archived: float | None
    """When it moved to the archive; None: it is searched."""
    who: str | None
    what: str | None
    when: str | None
    where: str | None
    """What the caller said; of a flashbulb else what was extracted from its text."""
    photograph: dict[str, Extracted]
    """Where who, what, when and where are from: those that are known, by name."""
    near_duplicate: NearDuplicate | None = field(default=None, compare=False)
    """What `remember` found beside a new memory, from ``policy.near_duplicate_cosine`` on. It is
    not kept, and counts in no comparison."""


@dataclass(frozen=True, slots=True)
class Weights:
    """The policy's constants that a hit's score was made with."""

    lexical: float
    vividness: float
    recency: float
    recency_days: float
    open_task_salience: float


@dataclass(frozen=True, slots=True)
class Hit:
    """A recalled memory and the terms of its score.

    ``score = similarity + vividness_bonus + recency_bonus``, and
    ``similarity = (1 - w)·cosine + w·lexical``.
    """

    id: int
    text: str
    score: float
    similarity: float
    cosine: float
    lexical: float
    """Of the shared words, in [0, 1)."""
    vividness_bonus: float
    recency_bonus: float
    record: Record
    """The memory as it was ranked: before this recall reinforced it. ``get(id)`` tells the rest."""
    _weights: Weights = field(repr=False)
    _now: float = field(repr=False)

    def explain(self) -> str:
        """The score term by term; the printed terms add up to the printed score."""
        weights, record = self._weights, self.record
        similarity, vividness, recency = rounded_terms(
            self.score, (self.similarity, self.vividness_bonus, self.recency_bonus)
        )
        if weights.lexical:
            meaning = (
                f"(1 - {weights.lexical:g})·cosine {self.cosine:.4f} "
                f"+ {weights.lexical:g}·lexical {self.lexical:.4f}"
            )
        else:
            meaning = f"cosine {self.cosine:.4f}"
        salience, task = record.salience, ""
        if record.status == "open" and record.urgency is not None:
            counted = weights.open_task_salience * record.urgency
            if counted > salience:
                salience, task = counted, " (open task)"
        strength = weights.vividness * record.effective_vividness * salience
        accessed = record.created if record.last_access is None else record.last_access
        freshness = max(record.created, accessed)
        days = max(self._now - freshness, 0.0) / 86400.0
        fresh = weights.recency * math.exp(-days / weights.recency_days)
        return "\n".join(
            (
                f"score      {self.score:.4f}",
                f"similarity {similarity:+.4f} = {meaning}",
                f"vividness  {vividness:+.4f} = {weights.vividness:g}·effective vividness "
                f"{record.effective_vividness:.4f}·salience {salience:.4f}{task}"
                + _ramp(self.vividness_bonus, strength),
                f"recency    {recency:+.4f} = {weights.recency:g}·exp(-{days:.2f} days"
                f" / {weights.recency_days:g})" + _ramp(self.recency_bonus, fresh),
            )
        )


def _ramp(bonus: float, full: float) -> str:
    """The factor by which the policy's ramp lowered a bonus, where it did."""
    return f"·ramp {bonus / full:.4f}" if full > 0 and abs(bonus - full) > 1e-9 else ""


def rounded_terms(total: float, terms: tuple[float, ...]) -> list[float]:
    """The terms rounded to 4 places so that they add up to the rounded total.

    What rounding leaves over, less than two units of the last place, goes to the largest term.
    """
    rounded = [round(term, 4) for term in terms]
    largest = max(range(len(terms)), key=lambda i: abs(terms[i]))
    rounded[largest] = round(rounded[largest] + round(total, 4) - sum(rounded), 4)
    return rounded


class NamespaceCount(NamedTuple):
    """A namespace of a store, and what it holds."""

    name: str
    memories: int
    """In RAM when it is loaded, and searched."""
    archived: int
    loaded_bytes: int
    """What it takes in RAM, about; 0: it is not loaded. ``Memory(memory_budget=)`` bounds it."""


class Stats(TypedDict):
    """Counts of one namespace, and what the whole store is."""

    namespace: str
    memories: int
    archived: int
    """Memories in the archive; no other count includes them."""
    occurrences: int
    open_tasks: int
    completed_tasks: int
    pinned: int
    pinned_by_surprise: int
    surprise_pins_refused: int
    """Flashbulbs by surprise that were stored unpinned, because the limit was reached."""
    flashbulbs: int
    deferred: int
    """Memories that an LLM is still to score, see ``Memory.rescore``."""
    tags: dict[str, int]
    """How many memories have each tag."""
    namespaces: int
    """Namespaces of the store that hold memories."""
    store_bytes: int
    """Of the database and its log; a snapshot of n memories takes about n · (5·dim + 100) beside
    it."""
    snapshot: str
    """Of this namespace: "none", "used" (it was opened from it), "written" (since it was opened),
    or "not used: " and why."""
    embedder: dict[str, Any]
    """Name, dim and fingerprint."""
    policy: dict[str, Any]
