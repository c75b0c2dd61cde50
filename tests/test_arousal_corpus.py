"""The corpus of the shipped model is well formed, and holds nothing of what it is judged by."""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from pathlib import Path

import pytest

from flashbulb.arousal.features import words
from flashbulb.arousal.text import fold
from flashbulb.arousal.training import LABELS

HERE = Path(__file__).resolve().parent
TRAINING = HERE.parent / "tools" / "train_arousal"
CORPUS = sorted((TRAINING / "corpus").glob("*.tsv"))
JUDGING = sorted((HERE / "data").glob("arousal_*.tsv"))
COLUMNS = ["text", "label", "kind", "language", "setting", "pair"]
LANGUAGES = {"en", "de", "es", "fr", "zh", "ja"}

Row = dict[str, str]


def read(path: Path) -> list[Row]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


@pytest.fixture(scope="module")
def rows() -> list[tuple[str, Row]]:
    """Each row, with where it is."""
    return [(f"{path.name}:{i}", row) for path in CORPUS for i, row in enumerate(read(path), 2)]


def kinds() -> set[str]:
    """As the guidelines list them, with remarks in brackets."""
    text = (TRAINING / "GUIDELINES.md").read_text("utf-8")
    listed = re.sub(r"\([^)]*\)", "", text.split("\nKinds: ")[1].split("\n\n")[0])
    return {name.strip() for name in listed.rstrip(".\n").split(",")}


def bare(text: str) -> str:
    """The words of a text, whatever its signs, case and width."""
    return " ".join(word for word in words(fold(text)) if word[0].isalnum())


def test_every_row_is_well_formed(rows: list[tuple[str, Row]]) -> None:
    assert len(rows) > 6_000
    known = kinds()
    assert len(known) == 30
    for place, row in rows:
        assert list(row) == COLUMNS, place
        assert row["label"] in LABELS, place
        assert row["kind"] in known, place
        assert row["language"] in LANGUAGES, place
        assert row["setting"], place
        assert row["text"], place
        for value in row.values():
            assert value == value.strip(), place
            assert value.replace("\u3000", " ").isprintable(), place


def test_every_kind_label_and_language_is_there(rows: list[tuple[str, Row]]) -> None:
    for column, expected in (("kind", kinds()), ("label", LABELS), ("language", LANGUAGES)):
        assert {row[column] for _, row in rows} == set(expected)


def test_no_text_is_there_twice(rows: list[tuple[str, Row]]) -> None:
    first: dict[str, str] = {}
    for place, row in rows:
        assert first.setdefault(fold(row["text"]), place) == place


def test_the_texts_of_a_pair_bear_different_labels(rows: list[tuple[str, Row]]) -> None:
    pairs: dict[tuple[str, str], list[str]] = defaultdict(list)
    for place, row in rows:
        if row["pair"]:
            pairs[place.split(":")[0], row["pair"]].append(row["label"])
    assert len(pairs) > 1_000
    assert [name for name, labels in pairs.items() if len(set(labels)) < 2] == []


# The message of a failure names places, never texts: some of these files nobody may read.
@pytest.mark.parametrize("path", JUDGING, ids=lambda path: path.stem)
def test_nothing_of_a_test_is_in_the_corpus(path: Path, rows: list[tuple[str, Row]]) -> None:
    assert places_shared(path, rows) == []


def test_nothing_of_the_handed_cases_is_in_the_corpus(
    data_folder: Path, rows: list[tuple[str, Row]]
) -> None:
    path = data_folder.parent / "cases" / "arousal.tsv"
    if not path.is_file():
        pytest.skip(f"no cases at {path}")
    assert places_shared(path, rows) == []


def places_shared(path: Path, rows: list[tuple[str, Row]]) -> list[str]:
    judged = {bare(row["text"]) for row in read(path)}
    assert judged
    return [place for place, row in rows if bare(row["text"]) in judged]
