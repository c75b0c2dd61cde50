"""How often texts that differ lie as near as a near duplicate, and what looking for them costs.

Of each stream: the share of texts whose nearest earlier text has at least the cosine; CPU time of
`remember` per text, without and with the look.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import time

import datasets
import numpy as np

from flashbulb import Memory, Policy
from flashbulb.embedding import resolve_embedder

COSINES = (0.90, 0.93, 0.95, 0.97, 0.99)
SINGLY = 250


def highest_earlier_cosine(vectors: np.ndarray) -> np.ndarray:
    rows = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.array([(rows[:i] @ rows[i]).max() for i in range(1, len(rows))])


def microseconds(texts: list[str], policy: Policy) -> tuple[float, float]:
    """CPU time of a text in a batch, and of one alone after it."""
    with Memory(":memory:", policy=policy, surprise=None) as memory:
        begin = time.process_time()
        memory.remember_many([{"text": text, "arousal": 0.0} for text in texts[:-SINGLY]])
        batch = (time.process_time() - begin) / (len(texts) - SINGLY)
        begin = time.process_time()
        for text in texts[-SINGLY:]:
            memory.remember(text, arousal=0.0)
        return 1e6 * batch, 1e6 * (time.process_time() - begin) / SINGLY


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--embedder", help="instead of the bundled one, such as minilm")
    embedder = resolve_embedder(parser.parse_args().embedder)
    streams = [("locomo " + stream.name, stream.texts) for stream in datasets.locomo()]
    streams += [("tracker " + issues.name, issues.texts) for issues in datasets.tracker()]
    print(f"{'stream':<20} {'texts':>6} " + " ".join(f"{f'>= {c}':>8}" for c in COSINES))
    kept = {}
    for name, texts in streams:
        different = list({" ".join(text.split()): text for text in texts if text.strip()}.values())
        kept[name] = different
        nearest = highest_earlier_cosine(embedder.embed_documents(different))
        shares = " ".join(f"{(nearest >= cosine).mean():>8.2%}" for cosine in COSINES)
        print(f"{name:<20} {len(different):>6} {shares}")
    longest = max(kept, key=lambda name: len(kept[name]))
    print(f"\nCPU microseconds of remember, {longest}: a text in a batch, one alone")
    off = dataclasses.replace(Policy(), near_duplicate_cosine=math.inf)
    for label, policy in (("without", off), ("with", Policy())):
        batch, alone = np.median([microseconds(kept[longest], policy) for _ in range(5)], axis=0)
        print(f"{label:<8} {batch:>6.0f} {alone:>6.0f}")


if __name__ == "__main__":
    main()
