"""What `remember` costs for judging arousal without an LLM, the embedding excluded.

    python benchmarks/quality --only cost

Every text once, so that nothing was seen before; the median over all texts of the processor time of
the whole process, which other programs disturb little.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from statistics import median, quantiles

from datasets import locomo, tracker
from judging import default_detector, embeddings, stages
from table import Row, at_most, progress

MOST_MICROSECONDS = 150.0
WARM_UP = 200


def rows() -> Iterator[Row]:
    texts = [text for stream in locomo() for text in stream.texts]
    texts += [text for project in tracker() for text in project.texts]
    progress(f"arousal of {len(texts):,} texts")
    vectors = embeddings(texts)
    detector = default_detector()
    spent = []
    for text, vector in zip(texts, vectors, strict=True):
        start = time.process_time()
        detector.detect(text, vector=vector)
        spent.append(1e6 * (time.process_time() - start))
    spent = spent[WARM_UP:]
    upper = quantiles(spent, n=20)[-1]
    yield at_most(
        "arousal of a text without an LLM, µs (median)",
        "locomo + tracker",
        median(spent),
        MOST_MICROSECONDS,
        f"{stages(detector)}; 95 %: {upper:.0f}",
    )
