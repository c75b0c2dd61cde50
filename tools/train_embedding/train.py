"""Fit the static token table to all-MiniLM-L6-v2. See README.md for the recipe and the sources.

    python train.py --teacher model.onnx --cache teacher.npz --out FOLDER --source NAME=PATH ...

Needs numpy, scipy, onnxruntime and an installed flashbulb (for its WordPiece). Every step is
deterministic up to the rounding of the teacher and of BLAS.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import scipy.sparse as sparse
from numpy.typing import NDArray
from sources import READERS, collect
from teacher import Teacher

from flashbulb.embedding.wordpiece import WordPiece, read_vocabulary

Matrix = NDArray[np.float32]

DIM = 256
SIF = 1e-3  # Arora et al. 2017: weight a / (a + p)
FREQUENT = 20  # sentences a token must be in to teach the map from the teacher's rows to ours
UNKNOWN_WEIGHT = 0.5  # length of an unknown word's direction, relative to the median row
LARGEST_SCALE = 60_000  # of the table's scales, which are uint16


def unit(rows: Matrix) -> Matrix:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.maximum(lengths, 1e-9), np.float32)


def token_means(texts: list[str]) -> sparse.csr_matrix:
    """(texts, tokens): how much of a text each token is."""
    tokenizer = WordPiece(read_vocabulary())
    encoded = [tokenizer.encode(text) for text in texts]
    lengths = np.array([len(ids) for ids in encoded])
    means = sparse.csr_matrix(
        (
            np.repeat((1 / np.maximum(lengths, 1)).astype(np.float32), lengths),
            np.concatenate([np.array(ids, np.int32) for ids in encoded]),
            np.concatenate([[0], np.cumsum(lengths)]),
        ),
        shape=(len(texts), len(tokenizer.vocabulary)),
    )
    means.sum_duplicates()
    return means


def start_table(tokens: Matrix, means: sparse.csr_matrix, basis: Matrix, target: Matrix) -> Matrix:
    """The teacher's rows of single tokens: centred, reduced, weighted by rarity, scaled to fit."""
    share = np.asarray(means.sum(axis=0)).ravel() + 1e-2
    weight = SIF / (SIF + share / share.sum())
    table = ((tokens - tokens.mean(axis=0)) @ basis) * weight[:, None]
    made = means @ table
    return np.asarray(table * ((made * target).sum() / (made * made).sum()), np.float32)


def least_squares(
    means: sparse.csr_matrix, target: Matrix, start: Matrix, ridge: float, steps: int = 20
) -> Matrix:
    """Minimise |means @ table - target|^2 + ridge |table - start|^2; conjugate gradients.

    All columns at once, preconditioned by the diagonal.
    """
    back = means.T.tocsr()
    diagonal = np.asarray(means.multiply(means).sum(axis=0)).ravel()[:, None] + ridge
    table = start.copy()
    residual = back @ (target - means @ table)
    scaled = residual / diagonal
    direction = scaled.copy()
    slope = (residual * scaled).sum(axis=0)
    for _ in range(steps):
        image = back @ (means @ direction) + ridge * direction
        step = slope / np.maximum((direction * image).sum(axis=0), 1e-30)
        table += step * direction
        residual -= step * image
        scaled = residual / diagonal
        slope, before = (residual * scaled).sum(axis=0), slope
        direction = scaled + (slope / np.maximum(before, 1e-30)) * direction
    return np.asarray(table, np.float32)


def learned_start(tokens: Matrix, means: sparse.csr_matrix, table: Matrix) -> Matrix:
    """A better start for rare tokens: the linear map from the teacher's rows to fitted ones.

    Learned on frequent tokens, whose rows the sentences determine.
    """
    sentences = np.bincount(means.indices, minlength=means.shape[1])
    inner = [token.startswith("##") for token in read_vocabulary()]
    features = np.column_stack([tokens, np.ones(len(tokens)), inner]).astype(np.float64)
    known = sentences >= FREQUENT
    weight = np.sqrt(np.minimum(sentences[known], 2_000))[:, None]
    left = features[known] * weight
    gram = left.T @ left + np.eye(left.shape[1])
    return np.asarray(
        features @ np.linalg.solve(gram, left.T @ (table[known] * weight)), np.float32
    )


def refine(
    means: sparse.csr_matrix, target: Matrix, table: Matrix, epochs: int, seed: int
) -> Matrix:
    """Adam on 1 - cosine, which is what a user compares; a short run, linearly cooled."""
    batch, rate = 4_096, 0.01 * float(np.abs(table).mean())
    table = table.copy()
    first, second = np.zeros_like(table), np.zeros_like(table)
    steps = epochs * (len(target) // batch)
    generator = np.random.default_rng(seed)
    order = np.empty(0, int)
    for step in range(1, steps + 1):
        if len(order) < batch:
            order = generator.permutation(len(target))
        chosen, order = order[:batch], order[batch:]
        part = means[chosen]
        made = part @ table
        length = np.linalg.norm(made, axis=1, keepdims=True) + 1e-9
        made /= length
        goal = target[chosen]
        cosine = (made * goal).sum(axis=1, keepdims=True)
        gradient = part.T @ ((made * cosine - goal) / (length * batch))
        first += 0.1 * (gradient - first)
        second += 0.001 * (gradient * gradient - second)
        slow = rate * min(1, step / 50) * (1 - step / (steps + 1))
        mean, spread = first / (1 - 0.9**step), np.sqrt(second / (1 - 0.999**step))
        table -= (slow * mean / (spread + 1e-8)).astype(np.float32)
    return table


def soften(means: sparse.csr_matrix, table: Matrix, power: float) -> Matrix:
    """Divide each principal direction of the sentences by its spread to the given power.

    A few directions that all sentences share would otherwise dominate every cosine.
    """
    _, spread, axes = np.linalg.svd(unit(means[:20_000] @ table), full_matrices=False)
    return np.asarray((table @ axes.T) * (spread / spread[0]) ** -power @ axes, np.float32)


def quantise(table: Matrix) -> tuple[NDArray[np.int8], NDArray[np.uint16]]:
    """int8 rows and their scales as integers; the last scale is that of unknown words."""
    peak = np.abs(table).max(axis=1) / 127
    step = float(peak.max()) / LARGEST_SCALE
    scales = np.maximum(1, np.ceil(peak / step))
    rows = np.rint(table / (scales * step)[:, None]).astype(np.int8)
    rows[~rows.any(axis=1), 0] = 1  # no token may be without a direction
    typical = float(np.median(np.linalg.norm(table[1_000:], axis=1)))
    # Two rows of odd random int8, of root mean square 74, make one unknown direction.
    unknown = round(UNKNOWN_WEIGHT * typical / step / (74 * np.sqrt(2 * table.shape[1])))
    return rows, np.append(scales, max(1, unknown)).astype(np.uint16)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--teacher", type=Path, required=True, help="ONNX file, fp32")
    parser.add_argument("--cache", type=Path, required=True, help=".npz for the teacher's vectors")
    parser.add_argument("--out", type=Path, required=True, help="folder for table and scales")
    parser.add_argument(
        "--source", action="append", default=[], help=f"NAME=PATH; names: {', '.join(READERS)}"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--power", type=float, default=0.2)
    options = parser.parse_args()

    folders = {name: Path(path) for name, path in (item.split("=", 1) for item in options.source)}
    if unknown := folders.keys() - READERS.keys():
        parser.error(f"unknown sources {sorted(unknown)}; known: {', '.join(READERS)}")
    texts = collect(folders, options.seed)
    teacher = Teacher(options.teacher, options.threads)
    tokens = teacher.tokens()
    vectors = teacher.texts(texts, options.cache)

    means = token_means(texts)
    basis = np.linalg.svd(vectors[::4], full_matrices=False)[2][:DIM].T
    target = vectors @ basis
    print(f"{len(texts)} sentences; {(target**2).sum(axis=1).mean():.4f} kept in {DIM} dimensions")

    table = start_table(tokens, means, basis, target)
    table = least_squares(means, target, table, ridge=0.03)
    table = least_squares(means, target, learned_start(tokens, means, table), ridge=0.1)
    table = refine(means, unit(target), table, options.epochs, options.seed)
    print(f"mean cosine to the teacher: {(unit(means @ table) * unit(target)).sum(1).mean():.4f}")
    rows, scales = quantise(soften(means, table, options.power))
    np.save(options.out / "table.npy", rows)
    np.save(options.out / "scales.npy", scales)


if __name__ == "__main__":
    main()
