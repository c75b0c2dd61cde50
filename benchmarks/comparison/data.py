"""Unit vectors to search: three made families, and real texts under Flashbulb's own embedder."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from flashbulb.embedding import StaticEmbedder
from quality import datasets

__all__ = ["KINDS", "Dataset", "has_real_data", "make"]

Vectors = NDArray[np.float32]

KINDS = ("clustered", "spectrum", "isotropic", "real")
HELD_OUT = 512
_BLOCK = 65_536
_SEED = 20_240_501

# Of the clustered family: a row's cosine to its centre is about 0.82, to a sibling 0.67.
_SPREAD = 0.7
# Of the power-law family: the variance of dimension i (before a random rotation) is 1 / i.
_DECAY = 1.0


@dataclass(frozen=True)
class Dataset:
    """Rows of one distribution and queries that are none of them, both of unit norm."""

    name: str
    rows: Vectors
    queries: Vectors

    @property
    def title(self) -> str:
        return f"{self.name}, {len(self.rows):,} × {self.rows.shape[1]}"


def make(kind: str, count: int, dim: int, cache: Path | None = None) -> Dataset:
    """``count`` rows (real data: as many as there are, up to that) and 512 queries.

    Parameters
    ----------
    kind : one of KINDS
    count, dim : int
        ``real`` has the embedder's 256 dimensions, whatever ``dim`` says.
    cache : folder, optional
        Where vectors that were made are kept for the next run.
    """
    if kind not in KINDS:
        raise ValueError(f"data must be one of {', '.join(KINDS)}, got {kind!r}")
    file = None if cache is None else cache / f"{kind}-{count}-{dim}-{_SEED}.npy"
    if file is not None and file.exists():
        vectors = np.load(file)
    else:
        vectors = _real(count) if kind == "real" else _made(kind, count, dim)
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            np.save(file, vectors)
    return Dataset(kind, vectors[HELD_OUT:], vectors[:HELD_OUT])


# -- Made ----------------------------------------------------------------------------------------


def _made(kind: str, count: int, dim: int) -> Vectors:
    rng = np.random.default_rng(_SEED)
    total = count + HELD_OUT
    vectors = np.empty((total, dim), np.float32)
    if kind == "clustered":
        centres = _unit(rng.standard_normal((max(16, count // 1000), dim), np.float32))
        # A few topics are talked about a lot.
        weights = 1.0 / np.arange(1, len(centres) + 1) ** 0.5
        topic = rng.choice(len(centres), total, p=weights / weights.sum())
    elif kind == "spectrum":
        rotation, _ = np.linalg.qr(rng.standard_normal((dim, dim)))
        scale = np.arange(1, dim + 1) ** (-_DECAY / 2)
        turn = (scale[:, None] * rotation).astype(np.float32)
    for start in range(0, total, _BLOCK):
        block = rng.standard_normal((min(_BLOCK, total - start), dim), np.float32)
        if kind == "clustered":
            block *= _SPREAD / np.sqrt(dim)
            block += centres[topic[start : start + len(block)]]
        elif kind == "spectrum":
            block = block @ turn
        vectors[start : start + len(block)] = _unit(block)
    return vectors


def _unit(rows: Vectors) -> Vectors:
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


def has_real_data() -> bool:
    """Whether the folder of real data is there."""
    try:
        datasets.data_folder()
    except SystemExit:
        return False
    return True


# -- Real ----------------------------------------------------------------------------------------

_WINDOWS = ((8, 3), (14, 4), (24, 6), (5, 2), (11, 3), (18, 4), (6, 1), (9, 1), (13, 1))
"""Words of a window, and how far the next one starts."""


def _real(count: int) -> Vectors:
    """First the queries: real questions and held-out sentences, half each; then the rows."""
    rng = np.random.default_rng(_SEED)
    streams = [*datasets.locomo(), *datasets.madial()]
    questions = sorted({q.text for stream in streams for q in stream.questions})
    half = min(HELD_OUT // 2, len(questions))
    asked = [questions[i] for i in rng.choice(len(questions), half, replace=False)]
    whole = [text for stream in streams for text in stream.texts]
    whole += [text for issues in datasets.tracker() for text in issues.texts]
    for folder in ("advisories", "emobank", "disaster_response", "loghub"):
        whole += _long_cells(datasets.data_folder() / folder)
    sentences = list(
        dict.fromkeys(s for text in whole for s in re.split(r"(?<=[.!?])\s+|\n+", text) if s)
    )
    held = rng.choice(len(sentences), HELD_OUT - half, replace=False)
    asked += [sentences[i] for i in held]
    texts = _distinct(whole, [s for i, s in enumerate(sentences) if i not in set(held)], count)
    return StaticEmbedder().embed_documents([*asked, *texts])


def _long_cells(folder: Path) -> list[str]:
    found = []
    csv.field_size_limit(10**7)
    for path in sorted(folder.glob("*.csv")):
        with path.open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                found += [cell for cell in row.values() if cell and cell.count(" ") >= 3]
    return found


def _distinct(whole: list[str], sentences: list[str], count: int) -> list[str]:
    """Texts, sentences, then windows of words of them, none twice."""
    seen: dict[str, None] = {}
    for text in _texts(whole, sentences):
        seen.setdefault(" ".join(text.lower().split()))
        if len(seen) == count:
            break
    return list(seen)


def _texts(whole: list[str], sentences: list[str]) -> Iterator[str]:
    yield from whole
    yield from sentences
    for width, step in _WINDOWS:
        for text in whole:
            words = text.split()
            for start in range(0, len(words) - width, step):
                yield " ".join(words[start : start + width])
