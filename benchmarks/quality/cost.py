"""What `remember` costs for judging arousal without an LLM, the embedding of the text excluded.

    python benchmarks/quality --only cost

Every text once, so that nothing was seen before: a third of them alone by rules and model, a third
alone by the rules, a third in batches. Processor time of the whole process, which other programs
disturb little. The model embeds the sentences of a longer text: that counts, and is told as well.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from statistics import mean, median, quantiles

import numpy as np
from datasets import locomo, tracker
from judging import EMBEDDER, embeddings, stages
from numpy.typing import NDArray
from table import Row, at_most, progress, reported

from flashbulb import ArousalDetector
from flashbulb.arousal import ArousalModel

MOST_MICROSECONDS = 150.0
WARM_UP = 100
BATCH = 256
DATA = "locomo + tracker"


class Timed:
    """The default embedder, and the processor time that went into it, in seconds."""

    def __init__(self) -> None:
        self.name, self.dim, self.fingerprint = EMBEDDER.name, EMBEDDER.dim, EMBEDDER.fingerprint
        self.embed_queries = EMBEDDER.embed_queries
        self.spent = 0.0

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        start = time.process_time()
        rows = np.asarray(EMBEDDER.embed_documents(texts), np.float32)
        self.spent += time.process_time() - start
        return rows


def rows() -> Iterator[Row]:
    texts = [text for stream in locomo() for text in stream.texts]
    texts += [text for project in tracker() for text in project.texts]
    progress(f"arousal of {len(texts):,} texts")
    vectors = embeddings(texts)
    embedder = Timed()
    detector = ArousalDetector(model=ArousalModel.for_embedder(embedder))
    ruled = ArousalDetector(model=None)

    total, embedding = alone(detector, texts[::3], vectors[::3], embedder)
    yield at_most(
        "arousal of a text without an LLM, µs (median)",
        DATA,
        median(total),
        MOST_MICROSECONDS,
        f"{stages(detector)}; {spread(total)}; of the mean {mean(embedding):.0f} embed sentences "
        f"of the {mean(spent > 0.0 for spent in embedding):.0%} longer texts",
    )
    rules, _ = alone(ruled, texts[1::3], vectors[1::3], embedder)
    yield reported("the same by rules alone", DATA, f"{median(rules):.3f} ({spread(rules)})")
    embedder.spent = 0.0
    each = batches(detector, texts[2::3], vectors[2::3])
    share = 1e6 * embedder.spent / len(texts[2::3])
    yield reported(
        f"the same of {BATCH} texts at once, µs a text (median of batches)",
        DATA,
        f"{median(each):.3f} (of it {share:.0f} embed sentences)",
    )


def spread(microseconds: list[float]) -> str:
    return f"95 %: {quantiles(microseconds, n=20)[-1]:.0f}, mean {mean(microseconds):.0f}"


def alone(
    detector: ArousalDetector, texts: list[str], vectors: NDArray[np.float32], embedder: Timed
) -> tuple[list[float], list[float]]:
    """Microseconds of each text, and how many of them went into the embedder."""
    total, embedding = [], []
    for text, vector in zip(texts, vectors, strict=True):
        embedder.spent = 0.0
        start = time.process_time()
        detector.detect(text, vector=vector)
        total.append(1e6 * (time.process_time() - start))
        embedding.append(1e6 * embedder.spent)
    return total[WARM_UP:], embedding[WARM_UP:]


def batches(
    detector: ArousalDetector, texts: list[str], vectors: NDArray[np.float32]
) -> list[float]:
    """Microseconds a text of each batch."""
    spent = []
    for start in range(0, len(texts), BATCH):
        part = texts[start : start + BATCH]
        begun = time.process_time()
        detector.detect_many(part, vectors=list(vectors[start : start + BATCH]))
        spent.append(1e6 * (time.process_time() - begun) / len(part))
    return spent
