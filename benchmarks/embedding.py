"""How well and how fast texts are embedded: the bundled table beside the model it was fitted to.

    python benchmarks/embedding.py [--data FOLDER] [--sts FILE] [--only static]

Informational, not a gate. Every figure is computed in this one run. Needs the real data (a folder,
by default FLASHBULB_DATA or ../shared/data); the teacher needs the extra ``minilm``.

- LoCoMo hit@10: a question finds one of its evidence turns among the ten nearest turns of its
  conversation. Turns are embedded as "speaker: text". All questions whose evidence exists.
- MADial hit@5: the dialogue so far finds one of the memories it should recall among the five
  nearest of all memories.
- EmoBank rho: Spearman correlation with the teacher's cosine, over pairs of sentences that the fit
  never saw, half of them near neighbours under the teacher.
- STS-B rho: Spearman correlation with people's scores; only with --sts (the tab separated
  ``sts-test.csv``, which is not part of the data).
- texts/s: issue summaries and chat turns in batches of 256, one thread, the best of three.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from flashbulb.embedding import Embedder, resolve_embedder

Vectors = NDArray[np.float32]
SEED = 20_240_501


def hit_rate(
    queries: Vectors, documents: Vectors, wanted: list[set[int]], k: int
) -> tuple[int, int]:
    """Queries with a wanted document among the k nearest, and the number of queries."""
    order = np.argsort(-(queries @ documents.T), axis=1, kind="stable")[:, :k]
    hits = sum(bool(rows & set(top.tolist())) for rows, top in zip(wanted, order, strict=True))
    return hits, len(wanted)


def locomo(embedder: Embedder, folder: Path) -> float:
    hits = total = 0
    for item in json.loads((folder / "locomo" / "locomo5.json").read_text("utf-8")):
        talk = item["conversation"]
        sessions = [key for key in talk if re.fullmatch(r"session_\d+", key)]
        turns = [turn for key in sessions for turn in talk[key]]
        place = {turn["dia_id"]: row for row, turn in enumerate(turns)}
        asked = [
            (entry["question"], {place[name] for name in entry["evidence"] if name in place})
            for entry in item["qa"]
        ]
        asked = [(question, rows) for question, rows in asked if rows]
        found, count = hit_rate(
            embedder.embed_queries([question for question, _ in asked]),
            embedder.embed_documents([f"{turn['speaker']}: {turn['text']}" for turn in turns]),
            [rows for _, rows in asked],
            k=10,
        )
        hits, total = hits + found, total + count
    return hits / total


def json_lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]


def madial(embedder: Embedder, folder: Path) -> float:
    memories: dict[int, str] = {}
    for line in json_lines(folder / "madial" / "MADial-Bench-en-memory.json"):
        memories.update({int(number): entry["event"] for number, entry in line.items()})
    place = {number: row for row, number in enumerate(memories)}
    queries, wanted = [], []
    for entry in json_lines(folder / "madial" / "MADial-Bench-en-dialogue.json"):
        said = entry["dialogue"][1 : entry["test-turn"][0]]
        words = (re.sub(r"^<[^>]*>:\s*", "", line.strip()).strip('"') for line in said)
        queries.append(" ".join(words))
        wanted.append({place[number] for number in entry["relevant-id"] if number in place})
    hits, total = hit_rate(
        embedder.embed_queries(queries),
        embedder.embed_documents(list(memories.values())),
        wanted,
        k=5,
    )
    return hits / total


def spearman(first: NDArray[np.floating[Any]], second: NDArray[np.floating[Any]]) -> float:
    """Correlation of ranks; equal values share the mean of their ranks."""

    def ranks(values: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
        _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
        middle: NDArray[np.float64] = np.cumsum(counts) - (counts - 1) / 2
        return middle[inverse]

    return float(np.corrcoef(ranks(first), ranks(second))[0, 1])


def emobank_pairs(folder: Path, teacher: Embedder) -> tuple[list[str], NDArray[np.int64], Vectors]:
    """Sentences, pairs of their places (n, 2) and the teacher's vectors."""
    with (folder / "emobank" / "emobank_train_dev.csv").open(encoding="utf-8") as handle:
        texts = list(dict.fromkeys(row["text"] for row in csv.DictReader(handle)))
    generator = np.random.default_rng(SEED)
    chosen = [texts[place] for place in generator.permutation(len(texts))[:1_500]]
    vectors = teacher.embed_documents(chosen)
    cosines = vectors @ vectors.T
    np.fill_diagonal(cosines, -1)
    near = np.argsort(-cosines, axis=1)[:, :3]
    neighbours = np.stack([np.repeat(np.arange(len(chosen)), 3), near.ravel()], axis=1)
    strangers = generator.integers(0, len(chosen), neighbours.shape)
    strangers = strangers[strangers[:, 0] != strangers[:, 1]]
    return chosen, np.concatenate([neighbours, strangers]), vectors


def pair_cosines(vectors: Vectors, pairs: NDArray[np.int64]) -> NDArray[np.float32]:
    return np.asarray((vectors[pairs[:, 0]] * vectors[pairs[:, 1]]).sum(axis=1))


def sts(embedder: Embedder, path: Path) -> float:
    rows = [line.split("\t") for line in path.read_text("utf-8").splitlines()]
    first = embedder.embed_documents([row[5] for row in rows])
    second = embedder.embed_documents([row[6] for row in rows])
    return spearman((first * second).sum(axis=1), np.array([float(row[4]) for row in rows]))


def throughput(embedder: Embedder, folder: Path, count: int) -> float:
    """Texts a second."""
    with (folder / "tracker" / "KAFKA.csv").open(encoding="utf-8") as handle:
        texts = [row["summary"] for row in csv.DictReader(handle)]
    for item in json.loads((folder / "locomo" / "locomo5.json").read_text("utf-8")):
        for key, turns in item["conversation"].items():
            if re.fullmatch(r"session_\d+", key):
                texts += [turn["text"] for turn in turns]
    order = np.random.default_rng(SEED).permutation(len(texts))[:count]
    texts = [texts[place] for place in order]
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        for first in range(0, len(texts), 256):
            embedder.embed_documents(texts[first : first + 256])
        best = min(best, time.perf_counter() - start)
    return len(texts) / best


def main() -> None:
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    parser = argparse.ArgumentParser(description="Quality and speed of the embedders.")
    parser.add_argument(
        "--data", type=Path, default=Path(os.environ.get("FLASHBULB_DATA", default))
    )
    parser.add_argument("--sts", type=Path, help="sts-test.csv of STS-B")
    parser.add_argument("--only", choices=["static", "minilm"], help="one embedder alone")
    options = parser.parse_args()
    if not options.data.is_dir():
        parser.error(f"no data at {options.data}; give --data or set FLASHBULB_DATA")

    embedders: dict[str, Embedder] = {}
    if options.only != "minilm":
        embedders["static (default)"] = resolve_embedder()
    if options.only != "static":
        embedders["MiniLM (teacher, int8)"] = teacher = resolve_embedder("minilm")
        texts, pairs, taught = emobank_pairs(options.data, teacher)
        truth = pair_cosines(taught, pairs)

    measures: dict[str, Callable[[Embedder], str]] = {
        "dim": lambda embedder: str(embedder.dim),
        "LoCoMo hit@10": lambda embedder: f"{locomo(embedder, options.data):.3f}",
        "MADial hit@5": lambda embedder: f"{madial(embedder, options.data):.3f}",
    }
    if options.only != "static":
        measures["EmoBank rho"] = lambda embedder: (
            f"{spearman(pair_cosines(embedder.embed_documents(texts), pairs), truth):.3f}"
        )
    if options.sts:
        measures["STS-B rho"] = lambda embedder: f"{sts(embedder, options.sts):.3f}"
    measures["texts/s"] = lambda embedder: (
        f"{throughput(embedder, options.data, 8_000 if embedder.dim == 256 else 300):,.0f}"
    )

    table = Table(title="Embedders")
    table.add_column("embedder")
    for name in measures:
        table.add_column(name, justify="right")
    for name, embedder in embedders.items():
        table.add_row(name, *(measure(embedder) for measure in measures.values()))
    Console().print(table)


if __name__ == "__main__":
    main()
