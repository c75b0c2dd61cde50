"""How well memories are found, on data nobody here wrote.

    python benchmarks/quality --only retrieval
    python benchmarks/quality/retrieval.py        several weights and ramps

- words: hit@10 on LoCoMo and hit@5 on MADial by similarity alone.
- fused: hit@10 with the default policy beside similarity alone; with flashbulbs of other topics
  (Blocker and Critical issues of a software project, of arousal 0.9, from the last 90 days) mixed
  in; and after two rounds of all questions, shuffled, one every ten minutes, each of which
  reinforces and suppresses.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache

from datasets import SECONDS_PER_DAY, Stream, locomo, madial, tracker
from table import Row, at_least, progress

from flashbulb import Memory, Policy

LEXICAL_WEIGHTS = (0.0, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0)
RAMPS = ((0.0, 0.0), (0.0, 0.1), (0.0, 0.3), (0.1, 0.5), (0.2, 0.5), (0.3, 0.6))
FOREIGN_SHARES = (0.0, 0.01, 0.1)
FOREIGN_DAYS = 90.0
ROUNDS = 2
SECONDS_BETWEEN_QUESTIONS = 600.0

DEFAULT = Policy()
SIMILARITY = replace(DEFAULT, vividness_weight=0.0, recency_weight=0.0)


@cache
def foreign_texts() -> list[str]:
    return [
        text
        for project in tracker()
        for text, priority in zip(project.texts, project.priorities, strict=True)
        if priority in ("Blocker", "Critical")
    ]


def hit_rate(
    streams: Sequence[Stream], k: int, policy: Policy, foreign_share: float = 0.0, rounds: int = 0
) -> float:
    """Share of questions with a memory of their evidence among the k best."""
    hits = total = 0
    for stream in streams:
        chooser = random.Random(stream.name)
        now = max(stream.times) + SECONDS_PER_DAY
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
                        "now": now - chooser.uniform(0.0, FOREIGN_DAYS) * SECONDS_PER_DAY,
                    }
                    for text in chooser.sample(foreign_texts(), count)
                ]
            )
            for _ in range(rounds):
                for question in chooser.sample(stream.questions, len(stream.questions)):
                    memory.recall(question.text, k, now=now)
                    now += SECONDS_BETWEEN_QUESTIONS
            for question in stream.questions:
                wanted = {records[number].id for number in question.evidence}
                found = memory.recall(question.text, k, reinforce=False, now=now)
                hits += not wanted.isdisjoint(hit.id for hit in found)
                total += 1
    return hits / total


def rows() -> Iterator[Row]:
    data = {"locomo": locomo(), "madial": madial()}
    for name, k, least in (("locomo", 10, 0.66), ("madial", 5, 0.69)):
        progress(f"words and meaning on {name}")
        alone = hit_rate(data[name], k, replace(SIMILARITY, lexical_weight=0.0))
        found = hit_rate(data[name], k, SIMILARITY)
        yield at_least(f"hit@{k}, words and meaning", name, found, least, f"meaning {alone:.3f}")
    for name, streams in data.items():
        for measure, share, rounds, most in (
            ("fused", 0.0, 0, 0.01),
            ("fused, 1 % flashbulbs of other topics", 0.01, 0, 0.02),
            ("fused, 10 % flashbulbs of other topics", 0.1, 0, 0.02),
            ("fused, after two rounds of all questions", 0.0, ROUNDS, 0.02),
        ):
            progress(f"{measure}, on {name}")
            alone = hit_rate(streams, 10, SIMILARITY, share)
            fused = hit_rate(streams, 10, DEFAULT, share, rounds)
            yield Row(
                f"hit@10, {measure}",
                name,
                f"loses <= {most:.2f}",
                f"{fused:.3f} (similarity alone {alone:.3f})",
                alone - fused <= most + 1e-9,
            )


def main() -> None:
    data = [("LoCoMo hit@10", locomo(), 10), ("MADial hit@5", madial(), 5)]
    print("similarity = (1 - w)·cosine + w·lexical, no bonus")
    print(f"{'w':>6}" + "".join(f"{name:>16}" for name, _, _ in data))
    for weight in LEXICAL_WEIGHTS:
        rates = [hit_rate(s, k, replace(SIMILARITY, lexical_weight=weight)) for _, s, k in data]
        mark = "  <- default" if weight == DEFAULT.lexical_weight else ""
        print(f"{weight:6.1f}" + "".join(f"{rate:16.3f}" for rate in rates) + mark)
    print("\nfused score by the ramp of vividness (0 to 0: no ramps) and the flashbulbs added")
    print(f"{'ramp':>10}{'added':>7}" + "".join(f"{name:>16}" for name, _, _ in data))
    for start, end in RAMPS:
        policy = replace(DEFAULT, vividness_ramp_start=start, vividness_ramp_end=end)
        if end == start:
            policy = replace(policy, recency_ramp_start=0.0, recency_ramp_end=0.0)
        mark = "  <- default" if policy == DEFAULT else ""
        for share in FOREIGN_SHARES:
            rates = [hit_rate(streams, k, policy, share) for _, streams, k in data]
            print(
                f"{start:5.1f}-{end:.1f} {share:7.0%}"
                + "".join(f"{rate:16.3f}" for rate in rates)
                + mark
            )


if __name__ == "__main__":
    main()
