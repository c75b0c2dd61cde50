"""What is left of critical memories after long use, and an error that comes once in a year.

    python benchmarks/quality --only use

Ninety days: the issues of a project are remembered in order of creation, as many each day, and
every day issues that are neither Blocker nor Critical are looked up by half of their words, each
of which reinforces and suppresses. After it, questions that ask for critical issues; the figure is
the share of Blocker and Critical ones among the first ten. It is taken with arousal from the labels
(0.9 for these two, 0 for all others): what the laws make of a right judgement; and with arousal
judged by the default detector from the summaries alone.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import mean

from attention import QUESTIONS
from datasets import SECONDS_PER_DAY, Issues, tracker
from table import Row, progress

from flashbulb import Memory, Policy

START = 1_700_000_000.0
DAYS = 90
LOOKED_UP_A_DAY = 5
K = 10
CRITICAL = ("Blocker", "Critical")
DEFAULT = Policy()
PLAIN = replace(DEFAULT, vividness_weight=0.0, recency_weight=0.0, lexical_weight=0.0)

ROUTINE = (
    "GET /orders/{a} answered 200 in {b} ms",
    "User {a} logged in to the service from the web",
    "Backup of shard {b} finished in {c} s",
    "Health check {a} of the service passed",
    "Cache warmed with {a} entries in {b} ms",
    "Nightly report {b} was sent to {c} recipients",
)
ERROR = "java.lang.OutOfMemoryError: Java heap space"
ERROR_QUESTION = "the service keeps running out of memory"


def half_of(text: str, chooser: random.Random) -> str:
    """Some of the words of a text, in a row."""
    words = text.split()
    count = max(1, len(words) // 2)
    first = chooser.randrange(len(words) - count + 1)
    return " ".join(words[first : first + count])


def precision_after_use(project: Issues, policy: Policy, *, labelled: bool) -> float:
    """Share of critical issues among the first ten after ninety days, mean over the questions."""
    chooser = random.Random(project.name)
    count = len(project.texts)
    mundane: list[str] = []
    critical: set[int] = set()
    with Memory(":memory:", policy=policy) as memory:
        for day in range(DAYS):
            numbers = range(count * day // DAYS, count * (day + 1) // DAYS)
            midnight = START + day * SECONDS_PER_DAY
            items = []
            for place, number in enumerate(numbers):
                item = {
                    "text": project.texts[number],
                    "tags": [project.sections[number]],
                    "now": midnight + place * 60.0,
                }
                if labelled:
                    item["arousal"] = 0.9 if project.priorities[number] in CRITICAL else 0.0
                items.append(item)
            for number, record in zip(numbers, memory.remember_many(items), strict=True):
                if project.priorities[number] in CRITICAL:
                    critical.add(record.id)
                else:
                    mundane.append(project.texts[number])
            for place in range(LOOKED_UP_A_DAY):
                noon = midnight + SECONDS_PER_DAY * (0.6 + 0.05 * place)
                memory.recall(half_of(chooser.choice(mundane), chooser), K, now=noon)
        end = START + DAYS * SECONDS_PER_DAY
        return mean(
            sum(hit.id in critical for hit in memory.recall(text, K, reinforce=False, now=end)) / K
            for text in QUESTIONS
        )


def ninety_days() -> Iterator[Row]:
    projects = tracker()
    progress("ninety days by plain similarity")
    plain = [precision_after_use(project, PLAIN, labelled=True) for project in projects]
    least = min(3.0 * mean(plain), 0.8)
    for measure, labelled in (("arousal from labels", True), ("arousal by the detector", False)):
        progress(f"ninety days, {measure}")
        found = [precision_after_use(project, DEFAULT, labelled=labelled) for project in projects]
        yield Row(
            f"critical in the top {K} after {DAYS} days of use, {measure}",
            "tracker",
            f">= {least:.3g}",
            f"{mean(found):.3f} ({', '.join(f'{f:.2f}' for f in found)}; plain {mean(plain):.3f})",
            mean(found) >= least,
        )


def rare_error() -> Row:
    """One OutOfMemoryError after 3,000 events of routine, and a year of more."""
    progress("an error that comes once in a year")
    chooser = random.Random(365)

    def routine() -> str:
        a, b, c = chooser.randrange(9999), chooser.randrange(300), chooser.randrange(60)
        return chooser.choice(ROUTINE).format(a=a, b=b, c=c)

    with Memory(":memory:") as memory:
        memory.remember_many(
            [{"text": routine(), "now": START + 60.0 * n - 3000 * 60.0} for n in range(3000)]
        )
        error = memory.remember(ERROR, now=START)
        memory.remember_many(
            [
                {"text": routine(), "now": START + 365.0 * SECONDS_PER_DAY * n / 3000}
                for n in range(3000)
            ]
        )
        end = START + 365.0 * SECONDS_PER_DAY
        found = memory.recall(ERROR_QUESTION, len(memory), reinforce=False, now=end)
        rank = [hit.id for hit in found].index(error.id) + 1
        pinned = memory.get(error.id, now=end).pinned
    return Row(
        "OutOfMemoryError after routine: pinned, and leads on day 365",
        "6,000 made events",
        "pinned, rank 1",
        f"{'pinned' if pinned else 'not pinned'}, rank {rank}",
        pinned and rank == 1,
    )


def idempotent_decay() -> Row:
    """Strengths after one read or a hundred, with and without reopening: the same bits."""
    progress("decay, read once and a hundred times")
    project = tracker()[0]
    found = set()
    with tempfile.TemporaryDirectory() as folder:
        for reads in (1, 100):
            for reopened in (False, True):
                path = Path(folder) / f"{reads}-{reopened}.db"
                memory = Memory(path, clock=lambda: START)
                memory.remember_many(project.texts[:200])
                for read in range(1, reads + 1):
                    now = START + DAYS * SECONDS_PER_DAY * read / reads
                    if reopened and read % 20 in (0, 1):
                        memory.close()
                        memory = Memory(path, clock=lambda now=now: now)
                    memory.recall(project.texts[0], reinforce=False, now=now)
                found.add(tuple(record.effective_vividness for record in memory.list(now=now)))
                memory.close()
    return Row(
        "decay read once or a hundred times, reopened or not",
        "tracker",
        "the same bits",
        "the same" if len(found) == 1 else f"{len(found)} different results",
        len(found) == 1,
    )


def rows() -> Iterator[Row]:
    yield from ninety_days()
    yield rare_error()
    yield idempotent_decay()
