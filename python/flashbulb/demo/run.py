"""Living through the stream with simulated time, then asking."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from flashbulb.demo.scenario import Message, Question, Scenario, load_scenario
from flashbulb.memory import Memory
from flashbulb.records import Hit, Stats

__all__ = ["WATCHED", "Answer", "Demo", "Ranked", "Watched", "run_demo"]

# An agent does not only store: it needs one quiet fact every week. That is the memory which is
# drawn as "recalled"; no question of the demo asks for it.
RECALLS = tuple((float(day), "When is the warehouse staffed?") for day in range(24, 67, 7))

# key -> what it is an example of
WATCHED = {
    "data-exposed": "a flashbulb, still unresolved",
    "sam-birthday-cake": "a mundane message",
    "warehouse-fire": "a flashbulb, resolved",
    "warehouse-hours": "a quiet fact, recalled every week",
}

# Questions whose answer the README does not promise. The bundled embedding model sees nothing in
# common between "bankrupt" and "insolvency" (cosine 0.1), and another emergency is closer.
NOT_PROMISED = frozenset({"Which of our suppliers went bankrupt, and is our money lost?"})

LOOKS_PER_DAY = 2


@dataclass(frozen=True, slots=True)
class Ranked:
    """One memory in a ranking, by its key in the stream."""

    key: str
    rank: int
    """From 1."""
    expected: bool
    hit: Hit


@dataclass(frozen=True, slots=True)
class Answer:
    """A question with both rankings of the whole store."""

    question: Question
    plain: list[Ranked]
    """By cosine alone: what a vector database would say over the same embeddings."""
    flashbulb: list[Ranked]

    @property
    def passed(self) -> bool:
        """Whether the first memory is one of those expected."""
        return self.flashbulb[0].expected

    @property
    def promised(self) -> bool:
        """Whether the README promises that it is."""
        return self.question.text not in NOT_PROMISED

    @property
    def best(self) -> Ranked:
        """The best placed of the promised answers."""
        return next(ranked for ranked in self.flashbulb if ranked.expected)

    @property
    def best_plain(self) -> Ranked:
        return next(ranked for ranked in self.plain if ranked.expected)

    @property
    def margin(self) -> float:
        """Score of the best promised answer less that of the best other memory."""
        other = next((r.hit.score for r in self.flashbulb if not r.expected), -math.inf)
        return self.best.hit.score - other


@dataclass(slots=True)
class Watched:
    """The life of one memory over the stream."""

    key: str
    title: str
    created: float
    text: str = ""
    days: list[float] = field(default_factory=list)
    vividness: list[float] = field(default_factory=list)
    """Effective vividness, which is what the score uses."""
    floors: list[float] = field(default_factory=list)
    recalled: list[float] = field(default_factory=list)
    completed: list[float] = field(default_factory=list)

    def moments(self, day: float) -> list[float]:
        """When to look at it: from its creation or the last look until `day`."""
        last = self.days[-1] if self.days else self.created
        steps = range(math.floor(last * LOOKS_PER_DAY) + 1, math.floor(day * LOOKS_PER_DAY) + 1)
        moments = [last, *(step / LOOKS_PER_DAY for step in steps)]
        return sorted({*moments, day} - set(self.days[-1:]))


@dataclass(frozen=True, slots=True)
class Demo:
    """What the demo found."""

    scenario: Scenario
    answers: list[Answer]
    watched: list[Watched]
    stats: Stats
    seconds: float

    @property
    def passed(self) -> bool:
        """Whether every promise is kept."""
        return all(answer.passed for answer in self.answers if answer.promised)


def run_demo(memory: Memory, scenario: Scenario | None = None) -> Demo:
    """Replay the stream into an empty store, then ask every question at the last day.

    Asking changes nothing, so the order of the questions does not matter.
    """
    if len(memory):
        raise ValueError(f"the demo needs an empty store, this one holds {len(memory)} memories")
    scenario = load_scenario() if scenario is None else scenario
    start = time.perf_counter()
    watched = _live_through(memory, scenario)
    answers = [_ask(memory, question, scenario.end) for question in scenario.questions]
    seconds = time.perf_counter() - start
    return Demo(scenario, answers, watched, memory.stats(), seconds)


def _live_through(memory: Memory, scenario: Scenario) -> list[Watched]:
    ids: dict[str, int] = {}
    waiting: list[Message] = []
    created = {message.key: message.day for message in scenario.messages}
    watched = {key: Watched(key, title, created[key]) for key, title in WATCHED.items()}

    def advance(day: float) -> None:
        """Store what has been said until this day, and look at the watched memories."""
        records = memory.remember_many([_item(message, scenario) for message in waiting])
        ids.update((m.key, record.id) for m, record in zip(waiting, records, strict=True))
        waiting.clear()
        for key in watched.keys() & ids.keys():
            each = watched[key]
            for moment in each.moments(day):
                record = memory.get(ids[key], now=scenario.at(moment))
                each.text = record.text
                each.days.append(moment)
                each.vividness.append(record.effective_vividness)
                each.floors.append(record.floor)

    actions: list[tuple[float, Message | str]] = [(m.day, m) for m in scenario.messages]
    actions += RECALLS
    for day, action in sorted(actions, key=lambda each: each[0]):
        if isinstance(action, str):
            advance(day)
            memory.recall(action, k=5, now=scenario.at(day))
            for key in watched.keys() & ids.keys():
                each = watched[key]
                if memory.get(ids[key]).access_count > len(each.recalled):
                    each.recalled.append(day)
            continue
        waiting.append(action)
        if action.completes:
            advance(day)
            memory.complete(ids[action.completes], now=scenario.at(day))
            if action.completes in watched:
                watched[action.completes].completed.append(day)
    advance(scenario.days)
    return list(watched.values())


def _item(message: Message, scenario: Scenario) -> dict[str, Any]:
    return {
        "text": message.text,
        "tags": message.tags,
        "urgency": message.urgency,
        "metadata": {"key": message.key},
        "now": scenario.at(message.day),
    }


def _ask(memory: Memory, question: Question, now: float) -> Answer:
    hits = memory.recall(question.text, len(memory), reinforce=False, now=now)
    by_cosine = sorted(hits, key=lambda hit: (-hit.cosine, hit.id))
    return Answer(question, _ranked(by_cosine, question), _ranked(hits, question))


def _ranked(hits: Iterable[Hit], question: Question) -> list[Ranked]:
    return [
        Ranked(key, rank, key in question.expect, hit)
        for rank, hit in enumerate(hits, 1)
        for key in (hit.record.metadata["key"],)
    ]
