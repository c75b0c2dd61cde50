"""How well arousal is judged, on texts that are no part of the model's corpus.

    python benchmarks/quality --only arousal
    python benchmarks/quality/arousal.py              the handed texts, kind by kind

Critical against the rest is judged by the default detector as it is, without any training on the
texts; so are log lines, each shown as an agent would read it: level and message. Requests for help,
priorities of issues and the arousal of sentences are no labels of the detector: there a head of its
own over the same features is fitted to some of the texts and asked about others.
"""

from __future__ import annotations

import csv
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

import numpy as np
from datasets import data_folder, locomo, log_lines, messages, sentences, tracker
from judging import default_detector, stages
from numpy.typing import NDArray
from probe import features, log_odds, ridge
from table import Row, at_least, at_most, progress, reported

from flashbulb import ArousalDetector, Policy

FLASHBULB = Policy().flashbulb_threshold
LABELS = ("critical", "important", "mundane")
OWN_SETS = Path(__file__).resolve().parents[2] / "tests" / "data"
FOLDS = 5


@dataclass(frozen=True)
class Judged:
    """A labelled text, and the scores of the detector and of its stages."""

    label: str
    kind: str
    together: float
    rules: float
    model: float


def rows() -> Iterator[Row]:
    yield from critical_against_rest()
    yield everyday_talk()
    yield requests_for_help()
    yield priorities()
    yield arousal_of_sentences()
    yield alerts()


# -- critical against the rest -------------------------------------------------------------------


def handed() -> Path:
    """The labelled texts beside the data, by which the detector is judged."""
    path = data_folder().parent / "cases" / "arousal.tsv"
    if not path.is_file():
        raise SystemExit(f"no labelled texts at {path}, beside the folder of FLASHBULB_DATA")
    return path


def judged(path: Path) -> list[Judged]:
    detector, rules = default_detector(), ArousalDetector(model=None)
    found = []
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            result = detector.detect(row["text"])
            model = [stage.score for stage in result.stages if stage.name == "model"]
            found.append(
                Judged(
                    row["label"],
                    row["kind"],
                    result.score,
                    rules.detect(row["text"]).score,
                    model[0] if model else 0.0,
                )
            )
    return found


def f1(texts: list[Judged], stage: str = "together") -> float:
    """Of critical against the rest at the threshold of flashbulbs."""
    flash = [getattr(text, stage) >= FLASHBULB for text in texts]
    critical = [text.label == "critical" for text in texts]
    hits = sum(a and b for a, b in zip(flash, critical, strict=True))
    return 2 * hits / max(sum(flash) + sum(critical), 1)


def false_flashbulbs(texts: list[Judged]) -> int:
    """Mundane texts from the threshold on."""
    return sum(text.label == "mundane" and text.together >= FLASHBULB for text in texts)


def means(texts: list[Judged]) -> list[float]:
    """The mean score of each label."""
    return [mean(text.together for text in texts if text.label == label) for label in LABELS]


def critical_against_rest() -> Iterator[Row]:
    texts = judged(handed())
    progress(f"arousal of {len(texts)} handed texts, and of the repository's own")
    name = stages(default_detector())
    yield at_least(
        "critical vs rest: F1 at the flashbulb threshold",
        "handed texts",
        f1(texts),
        0.90,
        f"{name}; rules alone {f1(texts, 'rules'):.3f}, model alone {f1(texts, 'model'):.3f}",
    )
    yield at_most(
        "mundane texts above the flashbulb threshold", "handed texts", false_flashbulbs(texts), 0
    )
    yield _in_order("handed texts", {"": texts})
    sets = {}
    for path in sorted(OWN_SETS.glob("arousal_*.tsv")):
        if path.stem == "arousal_own":  # the rules were written along these
            continue
        texts = judged(path)
        yield reported(
            "critical vs rest: F1; mundane texts above the threshold",
            path.stem,
            f"{f1(texts):.3f}; {false_flashbulbs(texts)} of "
            f"{sum(text.label == 'mundane' for text in texts)} (rules alone "
            f"{f1(texts, 'rules'):.3f}, model alone {f1(texts, 'model'):.3f})",
        )
        sets[path.stem.removeprefix("arousal_")] = texts
    yield _in_order("the sets above", sets)


def _in_order(data: str, sets: dict[str, list[Judged]]) -> Row:
    found = {name: means(texts) for name, texts in sets.items()}
    shown = "; ".join(
        f"{name} {' '.join(f'{value:.2f}' for value in values)}".strip()
        for name, values in found.items()
    )
    ordered = all(a > b > c for a, b, c in found.values())
    return Row("mean arousal of critical, important, mundane", data, "falling", shown, ordered)


def everyday_talk() -> Row:
    """Hardly a turn of it is critical: what becomes a flashbulb is noise, most of it."""
    texts = [text for stream in locomo() for text in stream.texts]
    progress(f"flashbulbs among {len(texts):,} turns of talk")
    shares = {
        name: mean(result.score >= FLASHBULB for result in detector.detect_many(texts))
        for name, detector in (
            ("together", default_detector()),
            ("rules", ArousalDetector(model=None)),
        )
    }
    return reported(
        "share of turns of everyday talk that become flashbulbs",
        "locomo",
        f"{shares['together']:.3f} (rules alone {shares['rules']:.3f})",
    )


# -- labels of others ----------------------------------------------------------------------------


def auroc(positive: NDArray[np.bool_], values: NDArray[np.float64]) -> float:
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(positive, values))


def requests_for_help() -> Row:
    from sklearn.model_selection import StratifiedKFold

    texts, wanted = messages()
    progress(f"requests among {len(texts):,} messages")
    matrix, labels = features(texts), np.array(wanted)
    values = np.zeros(len(texts))
    for seen, asked in StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(texts, labels):
        values[asked] = log_odds(matrix, labels, seen, asked)
    return at_least(
        "request for help vs none: AUROC",
        "disaster_response",
        auroc(labels, values),
        0.88,
        f"{FOLDS} folds of {len(texts):,}",
    )


def priorities() -> Row:
    chosen = [
        (project.name, text, priority in ("Blocker", "Critical"))
        for project in tracker()
        for text, priority in zip(project.texts, project.priorities, strict=True)
        if priority != "Major"
    ]
    progress(f"priorities of {len(chosen):,} issues")
    names = np.array([name for name, _, _ in chosen])
    labels = np.array([label for _, _, label in chosen])
    matrix = features([text for _, text, _ in chosen])
    found = {}
    for name in np.unique(names).tolist():
        seen, asked = np.flatnonzero(names != name), np.flatnonzero(names == name)
        found[name] = auroc(labels[asked], log_odds(matrix, labels, seen, asked))
    return at_least(
        "Blocker, Critical vs Minor, Trivial in a project not seen: AUROC",
        "tracker",
        mean(found.values()),
        0.70,
        ", ".join(f"{name} {value:.2f}" for name, value in found.items()),
    )


def arousal_of_sentences() -> Row:
    texts, values, splits = sentences()
    progress(f"arousal of {len(texts):,} sentences")
    parts = np.array(splits)
    seen, asked = np.flatnonzero(parts == "train"), np.flatnonzero(parts == "dev")
    true = np.array(values)
    predicted = ridge(features(texts), true, seen, asked)
    return at_least(
        "arousal of a sentence: Pearson r, train to dev",
        "emobank",
        float(np.corrcoef(predicted, true[asked])[0, 1]),
        0.42,
    )


def alerts() -> Row:
    lines, labels = log_lines()
    progress(f"alerts among {len(lines):,} log lines")
    scores = {}
    for name, detector in (
        ("together", default_detector()),
        ("rules", ArousalDetector(model=None)),
    ):
        known = {line: detector.detect(line).score for line in set(lines)}
        scores[name] = auroc(np.array(labels), np.array([known[line] for line in lines]))
    return at_least(
        "alerts vs normal log lines, level and message, no training: AUROC",
        "loghub",
        scores["together"],
        0.90,
        f"rules alone {scores['rules']:.3f}",
    )


def main() -> None:
    """The handed texts, kind by kind."""
    kinds: dict[str, list[Judged]] = defaultdict(list)
    for text in judged(handed()):
        kinds[text.kind].append(text)
    print(f"{'kind':16} {'critical':>8} {'found':>6} {'false':>6}   {'mean score of each label'}")
    for kind, texts in sorted(kinds.items()):
        flash = Counter(text.label == "critical" for text in texts if text.together >= FLASHBULB)
        labels = [label for label in LABELS if any(text.label == label for text in texts)]
        shown = ", ".join(
            f"{label} {mean(text.together for text in texts if text.label == label):.2f}"
            for label in labels
        )
        critical = sum(text.label == "critical" for text in texts)
        print(f"{kind:16} {critical:>8} {flash[True]:>6} {flash[False]:>6}   {shown}")


if __name__ == "__main__":
    main()
