"""The default detector as ``Memory`` builds it, and texts with their embeddings, for benchmarks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from flashbulb import ArousalDetector
from flashbulb.arousal import ArousalModel
from flashbulb.embedding import resolve_embedder

__all__ = ["EMBEDDER", "default_detector", "embeddings", "stages"]

EMBEDDER = resolve_embedder(None)


def default_detector(**options: Any) -> ArousalDetector:
    """Rules, and the local model that fits the default embedder if there is one."""
    return ArousalDetector(model=ArousalModel.for_embedder(EMBEDDER), **options)


def stages(detector: ArousalDetector) -> str:
    """Which cheap stages it has, in words."""
    names = [stage.name for stage in detector.detect("A text").stages]
    return " + ".join(names)


def embeddings(texts: list[str]) -> NDArray[np.float32]:
    """Unit vectors of the texts under the default embedder."""
    vectors = np.asarray(EMBEDDER.embed_documents(texts), dtype=np.float32)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths > 0.0, lengths, 1.0)
