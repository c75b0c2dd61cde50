"""Surprise on real streams: how many of the novel events are flashbulbs, and at what price.

    python benchmarks/quality/surprise.py         every stream and detector
    python benchmarks/quality --only surprise     the means

- one topic: a software project, a conversation, a database of advisories, the messages after one
  earthquake; with 2 % of events from the other data sets, the same number of each.
- mixed: two or three of these data sets shuffled together, and news of many disasters.
- bursts: a disaster in a stream of other events, alerts in the log of a computer. Crises arrive as
  look-alikes: novelty ranks them below chatter, which is why surprise never counts as arousal.

"caught" is the share of the novel events that a detector makes flashbulbs of, "of rest" the share
of the others. The rows are means over three seeds, which choose and place the foreign events.
Software projects and advisories are near topics: neither is foreign to the other.
"""

from __future__ import annotations

import csv
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import NamedTuple

import numpy as np
from datasets import data_folder, locomo, tracker
from numpy.typing import NDArray
from table import Row, at_least, reported

from flashbulb import Engine, Policy, SurpriseDetector
from flashbulb.embedding import resolve_embedder
from flashbulb.surprise import SurpriseMode

SEEDS = (1, 2, 3)
FOREIGN_SHARE = 0.02
QUIET = 100
"""Foreign events come after so many of the stream's own."""
MIXED = 1000
"""Events of each data set in a mixed stream."""
DETECTORS: dict[str, tuple[SurpriseMode, Policy]] = {
    "raw centroid": ("centroid", Policy.published()),
    "raw neighbours": ("neighbours", Policy.published()),
    "centroid": ("centroid", Policy()),
    "neighbours": ("neighbours", Policy()),
    "combined": ("combined", Policy()),
}

Event = tuple[str, bool]
"""A text, and whether it is novel (or critical)."""


class Caught(NamedTuple):
    auroc: float
    """Of z, over the whole stream."""
    caught: float
    of_rest: float
    at_one_percent: float
    """Caught by the threshold that exactly 1 % of the others of this stream exceed."""


@dataclass(frozen=True)
class Measured:
    """One stream."""

    kind: str
    stream: str
    events: int
    novel: int
    detectors: dict[str, Caught]


def measured(seeds: Sequence[int] = SEEDS) -> list[Measured]:
    """The table; every stream is the mean over the seeds."""
    found: dict[tuple[str, str], list[Measured]] = {}
    for seed in seeds:
        for kind, name, events in streams(random.Random(seed)):
            found.setdefault((kind, name), []).append(measure(kind, name, events))
    return [_mean_of(group) for group in found.values()]


def measure(kind: str, name: str, events: Sequence[Event]) -> Measured:
    """Every detector over one stream, event by event as a memory does."""
    vectors = resolve_embedder(None).embed_documents([text for text, _ in events])
    is_novel = np.array([novel for _, novel in events])
    engine = Engine(vectors.shape[1], approximate=False)
    ahead = SurpriseDetector("combined", engine=engine).look_ahead(vectors)
    detectors = {
        name: SurpriseDetector(mode, policy=policy, engine=engine)
        for name, (mode, policy) in DETECTORS.items()
    }
    scores: dict[str, list[float]] = {name: [] for name in detectors}
    flashbulbs: dict[str, list[bool]] = {name: [] for name in detectors}
    for id in range(1, len(events) + 1):
        seen = ahead.next()
        for name_of, detector in detectors.items():
            surprise = detector.judge(seen, (), 0.0)
            scores[name_of].append(surprise.z)
            flashbulbs[name_of].append(detector.is_flashbulb(surprise))
            detector.take(seen, (), 0.0)
        ahead.enter(id)
    caught = {
        name: _caught(np.array(scores[name]), np.array(flashbulbs[name]), is_novel)
        for name in detectors
    }
    return Measured(kind, name, len(events), int(is_novel.sum()), caught)


def _caught(
    scores: NDArray[np.float64], flashbulbs: NDArray[np.bool_], is_novel: NDArray[np.bool_]
) -> Caught:
    novel, rest = scores[is_novel], scores[~is_novel]
    threshold = np.quantile(rest, 0.99, method="higher")
    return Caught(
        auroc(novel, rest),
        float(flashbulbs[is_novel].mean()),
        float(flashbulbs[~is_novel].mean()),
        float((novel > threshold).mean()),
    )


def auroc(positive: NDArray[np.float64], negative: NDArray[np.float64]) -> float:
    """Probability that a positive one has the higher score; a tie counts half."""
    ordered = np.sort(negative)
    below = np.searchsorted(ordered, positive, "left") + np.searchsorted(ordered, positive, "right")
    return float(below.mean() / (2 * len(negative)))


def _mean_of(group: Sequence[Measured]) -> Measured:
    first = group[0]
    detectors = {
        name: Caught(
            *(mean(part) for part in zip(*(r.detectors[name] for r in group), strict=True))
        )
        for name in first.detectors
    }
    return Measured(first.kind, first.stream, first.events, first.novel, detectors)


# -- streams ---------------------------------------------------------------------------------------


def streams(chooser: random.Random) -> Iterator[tuple[str, str, list[Event]]]:
    """Kind, name and events of every stream."""
    projects = {issues.name: issues.texts for issues in tracker()}
    chats = {stream.name: stream.texts for stream in locomo()}
    advisories = [row["title"] for row in _csv("advisories", "advisories.csv")]
    messages = _csv("disaster_response", "disaster_response_validation.csv")
    earthquake = [row["message"] for row in messages if row["event"] == "haiti_earthquake"]
    news = [row["message"] for row in messages if row["genre"] == "news"]
    data = {
        "tracker": [text for texts in projects.values() for text in texts],
        "locomo": [text for texts in chats.values() for text in texts],
        "advisories": advisories,
        "disaster": [row["message"] for row in messages],
    }
    software = ("tracker", "advisories")
    topics = [(name, texts, software) for name, texts in projects.items()]
    topics += [(name, texts, ("locomo",)) for name, texts in chats.items()]
    topics += [("advisories", advisories, software), ("earthquake", earthquake, ("disaster",))]
    for name, texts, own in topics:
        others = [texts for name, texts in data.items() if name not in own]
        yield "one topic", name, _with_foreign(texts, others, chooser)

    for names in (
        *(("tracker", "locomo"), ("tracker", "disaster"), ("locomo", "disaster")),
        *(("locomo", "advisories"), ("disaster", "advisories")),
        *(tuple(name for name in data if name != left_out) for left_out in data),
    ):
        mixture = [text for name in names for text in chooser.sample(data[name], MIXED)]
        chooser.shuffle(mixture)
        others = [texts for name, texts in data.items() if name not in names]
        yield "mixed", " + ".join(names), _with_foreign(mixture, others, chooser)
    others = [texts for name, texts in data.items() if name != "disaster"]
    yield "mixed", "news of disasters", _with_foreign(news, others, chooser)

    requests = [row["message"] for row in messages if row["request"] == "1"]
    for name, texts in (("locomo", data["locomo"]), ("news", news)):
        yield "burst", f"requests for help in {name}", _burst(texts, requests[:100])
    other = [(row["message"], row["request"] == "1") for row in messages]
    yield "burst", "requests among messages", other
    log = _csv("loghub", "BGL_2k.log_structured.csv")
    yield "burst", "alerts in a log", [(row["Content"], row["Label"] != "-") for row in log]


def _with_foreign(
    texts: Sequence[str], others: Sequence[Sequence[str]], chooser: random.Random
) -> list[Event]:
    each = max(1, round(FOREIGN_SHARE * len(texts) / len(others)))
    foreign = [text for other in others for text in chooser.sample(other, each)]
    chooser.shuffle(foreign)
    places = iter(sorted(chooser.sample(range(QUIET, len(texts)), len(foreign)), reverse=True))
    events = [(text, False) for text in texts]
    for text in foreign:
        events.insert(next(places), (text, True))
    return events


def _burst(texts: Sequence[str], crisis: Sequence[str]) -> list[Event]:
    """All of the crisis at once, in the middle, between the events that go on."""
    half = len(texts) // 2
    events = [(text, False) for text in texts]
    for number, text in enumerate(crisis):
        events.insert(half + 2 * number, (text, True))
    return events


def _csv(folder: str, name: str) -> list[dict[str, str]]:
    with (data_folder() / folder / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


# -- the table -------------------------------------------------------------------------------------


def means(table: Sequence[Measured], kind: str) -> dict[str, Caught]:
    """Of every detector, over the streams of a kind."""
    return _mean_of([row for row in table if row.kind == kind]).detectors


def rows() -> Iterator[Row]:
    """For the table of all measures."""
    table = measured()
    for kind, limit in (("one topic", 0.80), ("mixed", 0.15)):
        found = means(table, kind)
        of_kind = [row for row in table if row.kind == kind]
        data = f"{len(of_kind)} streams, {kind}, 2 % novel"
        best = found["combined"]
        most = max(row.detectors["combined"].of_rest for row in of_kind)
        beside = f"by default {best.caught:.3f} at {best.of_rest:.2%}, at most {most:.2%}"
        measure = "novel events caught at 1 % of the rest"
        yield at_least(measure, data, best.at_one_percent, limit, beside)
        for name, caught in found.items():
            text = f"{caught.caught:.3f} at {caught.of_rest:.2%}, AUROC {caught.auroc:.3f}"
            yield reported(f"novel events caught: {name}", data, text)
    for row in table:
        if row.kind == "burst":
            caught = row.detectors["combined"]
            text = f"AUROC {caught.auroc:.3f}, caught {caught.caught:.3f} at {caught.of_rest:.2%}"
            yield reported("critical events as novel ones", row.stream, text)


def main() -> None:
    table = measured()
    for kind in dict.fromkeys(row.kind for row in table):
        print(f"\n{kind}: caught @ share of the rest, by the threshold at 1 % of the rest, AUROC")
        print(f"{'':<32}{'events':>8}{'novel':>6}" + "".join(f"{n:>28}" for n in DETECTORS))
        for row in table:
            if row.kind == kind:
                print(_line(row.stream, row.events, row.novel, row.detectors))
        if kind != "burst":
            print(_line("mean", "", "", means(table, kind)))


def _line(name: str, events: object, novel: object, detectors: dict[str, Caught]) -> str:
    cells = (
        f"{c.caught:.3f} @{c.of_rest:6.2%} {c.at_one_percent:.3f} {c.auroc:.3f}"
        for c in detectors.values()
    )
    return f"{name:<32}{events:>8}{novel:>6}" + "".join(f"{cell:>28}" for cell in cells)


if __name__ == "__main__":
    main()
