"""FAISS indexes of every kind that an engine takes, made small."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import faiss
import numpy as np

METRICS = {"ip": faiss.METRIC_INNER_PRODUCT, "l2": faiss.METRIC_L2}


def unit(count: int, dim: int, seed: int = 0) -> np.ndarray:
    """(count, dim) float32 unit rows."""
    rows = np.random.default_rng(seed).normal(size=(count, dim))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def _trained(index: Any, dim: int) -> Any:
    """Trained so that its quantiser holds any unit row."""
    corners = np.vstack([np.eye(dim), -np.eye(dim)])
    index.train(np.vstack([unit(500, dim, seed=99), corners]).astype(np.float32))
    return index


def _quantised(kind: int) -> Callable[[int, int], Any]:
    return lambda dim, metric: _trained(faiss.IndexScalarQuantizer(dim, kind, metric), dim)


def _lists(description: str, **options: Any) -> Callable[[int, int], Any]:
    def make(dim: int, metric: int) -> Any:
        index = faiss.index_factory(dim, description, metric)
        index.cp.min_points_per_centroid = 1
        for name, value in options.items():
            setattr(index, name, value)
        if hasattr(index, "sq"):
            index.sq.rangestat_arg = 0.5  # room for residuals that training did not see
        return _trained(index, dim)

    return make


def _mapped(make: Callable[[int, int], Any], outer: type) -> Callable[[int, int], Any]:
    return lambda dim, metric: outer(make(dim, metric))


_SQ = faiss.ScalarQuantizer

_BARE: dict[str, Callable[[int, int], Any]] = {
    "flat": faiss.IndexFlat,
    "fp16": _quantised(_SQ.QT_fp16),
    "sq8": _quantised(_SQ.QT_8bit),
    "sq8 uniform": _quantised(_SQ.QT_8bit_uniform),
    "hnsw": lambda dim, metric: faiss.IndexHNSWFlat(dim, 8, metric),
    "ivf": _lists("IVF5,Flat"),
    "ivf fp16": _lists("IVF5,SQfp16", by_residual=False),
    "ivf sq8": _lists("IVF5,SQ8", by_residual=False),
    "ivf fp16 residual": _lists("IVF5,SQfp16"),
    "ivf sq8 residual": _lists("IVF5,SQ8"),
}

KINDS: dict[str, Callable[[int, int], Any]] = {
    **_BARE,
    "map flat": _mapped(_BARE["flat"], faiss.IndexIDMap),
    "map2 flat": _mapped(_BARE["flat"], faiss.IndexIDMap2),
    "map2 sq8": _mapped(_BARE["sq8"], faiss.IndexIDMap2),
    "map hnsw": _mapped(_BARE["hnsw"], faiss.IndexIDMap),
    "map2 hnsw": _mapped(_BARE["hnsw"], faiss.IndexIDMap2),
    "map ivf": _mapped(_BARE["ivf"], faiss.IndexIDMap),
    "map2 ivf sq8": _mapped(_BARE["ivf sq8 residual"], faiss.IndexIDMap2),
}
"""(dim, metric) -> an empty index, trained if it has to be."""

EIGHT_BIT = tuple(name for name in KINDS if "sq8" in name)
WITH_IDS = tuple(name for name in KINDS if "ivf" in name or "map" in name)
"""Those that take ids of their own."""


def made(kind: str, dim: int, metric: str = "ip") -> Any:
    return KINDS[kind](dim, METRICS[metric])
