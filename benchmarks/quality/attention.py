"""What needs attention: Flashbulb beside plain similarity over the same embeddings.

    python benchmarks/quality/attention.py

Real issue summaries of four projects are replayed in order of creation over one year. Questions
that ask for critical issues are put at the end of it; the figure is the share of Blocker and
Critical issues among the first ten. Priorities are never shown to the memory. "words" is
similarity with words, without the bonus of vividness and recency.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import mean

from datasets import SECONDS_PER_DAY, Issues, tracker

from flashbulb import Memory, Policy

QUESTIONS = (
    "what critical issues need attention?",
    "What critical issues are unresolved?",
    "Which urgent problems are still open?",
    "serious failures that need fixing now",
    "what is broken in production?",
    "data loss or outage problems",
    "which blockers must be fixed before the release?",
    "most severe bugs",
    "are there any emergencies?",
    "what could take the cluster down?",
)
END = 1_700_000_000.0
DAYS = 365.0
K = 10


def precisions(project: Issues, policy: Policy) -> list[float]:
    """Precision at 10 for each question."""
    step = DAYS * SECONDS_PER_DAY / len(project.texts)
    start = END - DAYS * SECONDS_PER_DAY
    with Memory(":memory:", policy=policy) as memory:
        records = memory.remember_many(
            [
                {"text": text, "tags": [section], "now": start + step * number}
                for number, (text, section) in enumerate(
                    zip(project.texts, project.sections, strict=True)
                )
            ]
        )
        critical = {
            record.id
            for record, priority in zip(records, project.priorities, strict=True)
            if priority in ("Blocker", "Critical")
        }
        return [
            sum(hit.id in critical for hit in memory.recall(text, K, reinforce=False, now=END)) / K
            for text in QUESTIONS
        ]


def main(projects: Sequence[Issues]) -> None:
    default = Policy()
    words = replace(default, vividness_weight=0.0, recency_weight=0.0)
    plain = replace(words, lexical_weight=0.0)
    print(f"precision at {K}, mean of {len(QUESTIONS)} questions")
    print(f"{'project':<12}{'issues':>8}{'base rate':>11}{'plain':>8}{'words':>8}{'Flashbulb':>11}")
    for project in projects:
        rate = mean(priority in ("Blocker", "Critical") for priority in project.priorities)
        figures = [mean(precisions(project, policy)) for policy in (plain, words, default)]
        print(
            f"{project.name:<12}{len(project.texts):>8}{rate:>11.3f}"
            f"{figures[0]:>8.3f}{figures[1]:>8.3f}{figures[2]:>11.3f}"
        )


if __name__ == "__main__":
    main(tracker())
