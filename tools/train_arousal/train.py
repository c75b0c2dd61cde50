"""Trains the arousal model that comes with Flashbulb, and says how well it does.

    python tools/train_arousal/train.py [--source NAME=PATH ...] [--output model.npz] [--evaluate]

Reads ``corpus/*.tsv`` beside this file, and what is ordinary from the sources that the README
names. ``--evaluate`` also says how well whole kinds and whole settings are judged by models that
have seen nothing of them.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
from collections import defaultdict
from pathlib import Path

import numpy as np
from sklearn.metrics import roc_auc_score

from flashbulb.arousal import ArousalDetector
from flashbulb.arousal.training import (
    calibration_error,
    design,
    folds,
    numbered,
    out_of_fold,
    quality,
    scores,
    softmax,
    train,
)
from flashbulb.policy import Policy

HERE = Path(__file__).resolve().parent
FLASHBULB = Policy().flashbulb_threshold
SHIPPED = HERE.parents[1] / "python" / "flashbulb" / "arousal" / "data" / "model.npz"


def corpus() -> list[dict[str, str]]:
    """All rows, with the file they are from and `group`: what must not be parted."""
    rows: list[dict[str, str]] = []
    for path in sorted((HERE / "corpus").glob("*.tsv")):
        for row in tsv(path):
            row["group"] = f"{path.stem} {row['pair'] or len(rows)}"
            rows.append(row)
    return rows


def calibration() -> list[tuple[str, str]]:
    """Texts by another writer, no pairs among them, which decide how sure the model is."""
    return [(row["text"], row["label"]) for row in tsv(HERE / "calibration.tsv")]


def tsv(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def background(sources: dict[str, Path]) -> list[tuple[str, str]]:
    """What is ordinary, and cries for help, from the sources that are there.

    What the rules take for important or critical is left out of the ordinary: nobody has read it.
    """
    ordinary: list[str] = []
    calls: list[str] = []
    if "chitchat" in sources:
        dialogues = json.loads((sources["chitchat"] / "dataset.json").read_text(encoding="utf-8"))
        turns = {
            " ".join(message["text"] for message in turn).strip()
            for dialogue in dialogues.values()
            for turn in dialogue["messages"]
        }
        chosen = sorted(turn for turn in turns if 8 <= len(turn) <= 300)
        random.Random(0).shuffle(chosen)
        ordinary += chosen[:5_500]
    if "tracker" in sources:
        for name in ("KAFKA", "MAPREDUCE"):
            ordinary += [
                row["summary"]
                for row in table_of(sources["tracker"] / f"{name}.csv")
                if row["priority"] in ("Minor", "Trivial")
            ]
    if "disaster" in sources:
        for row in table_of(sources["disaster"] / "disaster_response_validation.csv"):
            if row["related"] == row["request"] == row["aid_related"] == "0":
                ordinary.append(row["message"])
            elif row["request"] == "1" == row["aid_related"] and row["genre"] == "direct":
                calls.append(row["message"])
    for name in ("chitchat", "tracker", "disaster"):
        if name not in sources:
            print(f"without {name}: no --source {name}=PATH")
    rules = ArousalDetector(model=None)
    quiet = [text for text in ordinary if rules.detect(text).score < Policy().important_threshold]
    return [(text, "mundane") for text in quiet] + [(text, "critical") for text in calls]


def table_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def judged(rows: list[dict[str, str]], scores: np.ndarray) -> np.ndarray:
    """What a detector says whose model has these scores."""
    answer = (0.0, 1.0)
    detector = ArousalDetector(model=lambda text, context: answer)
    found = []
    for row, score in zip(rows, scores.tolist(), strict=True):
        answer = (score, max(score, 1.0 - score))
        found.append(detector.detect(row["text"]).score)
    return np.array(found)


def table(rows: list[dict[str, str]], scores: np.ndarray, keys: tuple[str, ...]) -> None:
    """Critical against the rest at the flashbulb threshold: how many found, how many false."""
    rules = ArousalDetector(model=None)
    columns = {
        "rules": np.array([rules.detect(row["text"]).score for row in rows]),
        "model": scores,
        "together": judged(rows, scores),
    }
    critical = np.array([row["label"] == "critical" for row in rows])
    by: dict[str, list[int]] = defaultdict(list)
    for place, row in enumerate(rows):
        for name in ("all", *(row[key] for key in keys)):
            by[name].append(place)
    print(f"{'':20} {'texts':>5}  " + "".join(f"{name + ': found, false':>24}" for name in columns))
    for name, places in sorted(by.items(), key=lambda item: (-len(item[1]), item[0])):
        line = f"{name:20} {len(places):>5}  "
        for values in columns.values():
            flash, true = values[places] >= FLASHBULB, critical[places]
            found = f"{int((flash & true).sum())}/{int(true.sum())}"
            line += f"{found:>17} {int((flash & ~true).sum()):>6}"
        print(line)
    for name, values in columns.items():
        flash = values >= FLASHBULB
        f1 = 2 * (flash & critical).sum() / (flash.sum() + critical.sum())
        print(f"{name}: F1 {f1:.3f}, AUROC {auroc(critical, values):.3f}")


def auroc(positive: np.ndarray, values: np.ndarray) -> float:
    return float(roc_auc_score(positive, values))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=SHIPPED)
    parser.add_argument("--source", action="append", default=[], metavar="NAME=PATH")
    parser.add_argument("--evaluate", action="store_true", help="whole kinds, settings left out")
    arguments = parser.parse_args()
    rows = corpus()
    texts, labels = [row["text"] for row in rows], [row["label"] for row in rows]
    groups = [row["group"] for row in rows]
    named = dict(source.split("=", 1) for source in arguments.source)
    beside = background({name: Path(path) for name, path in named.items()})
    print(f"{len(rows)} texts, {len(beside)} of background", flush=True)
    training = train(texts, labels, groups=groups, background=beside, calibration=calibration())
    training.model.save(arguments.output)
    print(f"{arguments.output}: {arguments.output.stat().st_size} bytes")
    critical = np.array([label == "critical" for label in labels])
    error = quality(training.probabilities, critical, FLASHBULB).calibration_error
    print(f"temperature {training.temperature:.2f}, calibration error of the corpus {error:.3f}")
    natural = calibration()
    found = np.array([training.model(text).critical for text, _ in natural])
    critical = np.array([label == "critical" for _, label in natural])
    error = calibration_error(found, critical)
    print(f"of {len(natural)} texts for calibration {error:.3f}")
    print("\nEach text by a model that has not seen it, nor its pair:")
    table(rows, training.scores, ("language",))
    if not arguments.evaluate:
        return
    matrix = design([*texts, *(text for text, _ in beside)], training.model.embedder)
    everything = [*labels, *(label for _, label in beside)]
    numbers, rest = numbered(everything, everything), np.arange(len(texts), len(everything))
    for key in ("kind", "setting"):
        print(f"\nEach {key} by a model that has not seen it:", flush=True)
        divisions = folds([row[key] for row in rows], groups)
        with_rest = [(np.concatenate((others, rest)), own) for others, own in divisions]
        raw = out_of_fold(matrix, numbers, with_rest, len(texts))[: len(texts)]
        table(rows, scores(softmax(raw / training.temperature)), ("kind",))


if __name__ == "__main__":
    main()
