"""Trains the arousal model that comes with Flashbulb, and says how well it does.

    python tools/train_arousal/train.py [--output model.npz] [--evaluate]

Reads ``corpus/*.tsv`` beside this file. ``--evaluate`` also says how well whole kinds and
whole settings are judged by models that have seen nothing of them.
"""

from __future__ import annotations

import argparse
import csv
from collections import defaultdict
from pathlib import Path

import numpy as np
from sklearn.metrics import roc_auc_score

from flashbulb.arousal import ArousalDetector
from flashbulb.arousal.training import (
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
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
                row["group"] = f"{path.stem} {row['pair'] or len(rows)}"
                rows.append(row)
    return rows


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
    parser.add_argument("--evaluate", action="store_true", help="whole kinds, settings left out")
    arguments = parser.parse_args()
    rows = corpus()
    texts, labels = [row["text"] for row in rows], [row["label"] for row in rows]
    groups = [row["group"] for row in rows]
    print(f"{len(rows)} texts", flush=True)
    training = train(texts, labels, groups=groups)
    training.model.save(arguments.output)
    print(f"{arguments.output}: {arguments.output.stat().st_size} bytes")
    critical = np.array([label == "critical" for label in labels])
    error = quality(training.probabilities, critical, FLASHBULB).calibration_error
    print(f"temperature {training.temperature:.2f}, calibration error {error:.3f}")
    print("\nEach text by a model that has not seen it, nor its pair:")
    table(rows, training.scores, ("language",))
    if not arguments.evaluate:
        return
    matrix, numbers = design(texts, training.model.embedder), numbered(texts, labels)
    for key in ("kind", "setting"):
        print(f"\nEach {key} by a model that has not seen it:", flush=True)
        raw = out_of_fold(matrix, numbers, folds([row[key] for row in rows], groups))
        table(rows, scores(softmax(raw / training.temperature)), ("kind",))


if __name__ == "__main__":
    main()
