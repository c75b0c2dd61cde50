"""How well memories are found, on data nobody here wrote: one command, a table, seeds fixed.

    python benchmarks/quality/retrieval.py

- words: hit@10 on LoCoMo and hit@5 on MADial by similarity alone, for several lexical weights.
- fused: the same with the default policy, and with flashbulbs of other topics (Blocker and
  Critical issues of a software project, of arousal 0.9, from the last 90 days) mixed in.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from datasets import SECONDS_PER_DAY, Stream, locomo, madial, tracker

from flashbulb import Memory, Policy

LEXICAL_WEIGHTS = (0.0, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0)
FOREIGN_SHARES = (0.0, 0.01, 0.1)
FOREIGN_DAYS = 90.0


def hit_rate(
    streams: Sequence[Stream], k: int, policy: Policy, foreign_share: float = 0.0
) -> float:
    """Share of questions with a memory of their evidence among the k best."""
    foreign = [
        text
        for project in tracker()
        for text, priority in zip(project.texts, project.priorities, strict=True)
        if priority in ("Blocker", "Critical")
    ]
    hits = total = 0
    for stream in streams:
        chooser = random.Random(stream.name)
        end = max(stream.times) + SECONDS_PER_DAY
        with Memory(":memory:", policy=policy) as memory:
            records = memory.remember_many(
                [
                    {"text": text, "now": time}
                    for text, time in zip(stream.texts, stream.times, strict=True)
                ]
            )
            count = round(foreign_share * len(stream.texts))
            memory.remember_many(
                [
                    {
                        "text": text,
                        "arousal": 0.9,
                        "now": end - chooser.uniform(0.0, FOREIGN_DAYS) * SECONDS_PER_DAY,
                    }
                    for text in chooser.sample(foreign, count)
                ]
            )
            for question in stream.questions:
                wanted = {records[number].id for number in question.evidence}
                found = memory.recall(question.text, k, reinforce=False, now=end)
                hits += not wanted.isdisjoint(hit.id for hit in found)
                total += 1
    return hits / total


def main() -> None:
    default = Policy()
    data = [("LoCoMo hit@10", locomo(), 10), ("MADial hit@5", madial(), 5)]
    print("similarity = (1 - w)·cosine + w·lexical, no bonus")
    print(f"{'w':>6}" + "".join(f"{name:>16}" for name, _, _ in data))
    for weight in LEXICAL_WEIGHTS:
        plain = replace(default, lexical_weight=weight, vividness_weight=0.0, recency_weight=0.0)
        rates = [hit_rate(streams, k, plain) for _, streams, k in data]
        mark = "  <- default" if weight == default.lexical_weight else ""
        print(f"{weight:6.1f}" + "".join(f"{rate:16.3f}" for rate in rates) + mark)
    print("\nfused score, default policy, with flashbulbs of other topics added")
    print(f"{'added':>6}" + "".join(f"{name:>16}" for name, _, _ in data))
    for share in FOREIGN_SHARES:
        rates = [hit_rate(streams, k, default, share) for _, streams, k in data]
        print(f"{share:6.0%}" + "".join(f"{rate:16.3f}" for rate in rates))
    unramped = replace(
        default,
        vividness_ramp_start=0.0,
        vividness_ramp_end=0.0,
        recency_ramp_start=0.0,
        recency_ramp_end=0.0,
    )
    rates = [hit_rate(streams, k, unramped, 0.1) for _, streams, k in data]
    print("   10%" + "".join(f"{rate:16.3f}" for rate in rates) + "  (without the ramps)")


if __name__ == "__main__":
    main()
