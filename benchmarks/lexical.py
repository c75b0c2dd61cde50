"""Build time, memory and query latency of the lexical index. Informational.

    python benchmarks/lexical.py [--rows 100000]

The texts are real (tracker summaries, chat, emergency messages, sentences), found in
``FLASHBULB_DATA`` or ``../shared/data``; beyond their number, halves of two are joined. The queries
are LoCoMo's questions, and the worst case is a question of common words only.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import random
import resource
import statistics
import time
from pathlib import Path

from flashbulb.lexical import LexicalIndex

DATA = Path(
    os.environ.get("FLASHBULB_DATA", Path(__file__).resolve().parents[2] / "shared" / "data")
)


def column(file: Path, name: str) -> list[str]:
    with file.open(newline="", encoding="utf-8") as lines:
        return [row[name] for row in csv.DictReader(lines) if row[name].strip()]


def real_texts() -> tuple[list[str], list[str]]:
    """Texts to store and questions to ask."""
    texts: list[str] = []
    for file in sorted((DATA / "tracker").glob("*.csv")):
        texts += column(file, "summary")
    texts += column(DATA / "disaster_response" / "disaster_response_validation.csv", "message")
    texts += column(DATA / "emobank" / "emobank_train_dev.csv", "text")
    questions: list[str] = []
    for sample in json.loads((DATA / "locomo" / "locomo5.json").read_text(encoding="utf-8")):
        questions += [qa["question"] for qa in sample["qa"]]
        for key, turns in sample["conversation"].items():
            if key.startswith("session_") and isinstance(turns, list):
                texts += [f"{turn['speaker']}: {turn['text']}" for turn in turns]
    return texts, questions


def enlarge(texts: list[str], rows: int, chance: random.Random) -> list[str]:
    enlarged = texts[:rows]
    while len(enlarged) < rows:
        first, second = chance.choice(texts).split(), chance.choice(texts).split()
        enlarged.append(" ".join(first[: len(first) // 2 + 1] + second[len(second) // 2 :]))
    chance.shuffle(enlarged)
    return enlarged


def milliseconds(index: LexicalIndex, queries: list[str]) -> list[float]:
    taken = []
    for query in queries:
        start = time.perf_counter()
        index.search(query, 8.0)
        taken.append(1000 * (time.perf_counter() - start))
    return sorted(taken)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000)
    rows = parser.parse_args().rows
    chance = random.Random(1)
    texts, questions = real_texts()
    texts = enlarge(texts, rows, chance)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    index = LexicalIndex()
    start = time.perf_counter()
    index.add(enumerate(texts))
    build = time.perf_counter() - start
    memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    words = sum(len(text.split()) for text in texts) / rows
    print(f"{rows} rows of {words:.1f} words: built in {build:.2f} s, {memory:.0f} MiB")
    for name, queries in (
        ("LoCoMo questions", chance.sample(questions, 500)),
        ("common words only", ["what is the and of to in for"] * 20),
        ("stored texts", chance.sample(texts, 500)),
    ):
        taken = milliseconds(index, queries)
        print(
            f"{name}: median {statistics.median(taken):.2f} ms, "
            f"99 % {taken[int(len(taken) * 0.99)]:.2f} ms"
        )
    start = time.perf_counter()
    for id in range(0, rows, max(1, rows // 1000)):
        index.remove(id, texts[id])
    print(f"remove: {1e3 * (time.perf_counter() - start) / min(rows, 1000):.3f} ms each")


if __name__ == "__main__":
    main()
