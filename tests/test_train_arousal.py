"""Training a model on labels of one's own: from Python, and by ``flashbulb train-arousal``."""

from __future__ import annotations

import hashlib
import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command import run
from flashbulb import ArousalDetector, Memory
from flashbulb.arousal import ArousalModel
from flashbulb.arousal.labels import read_labels
from flashbulb.arousal.training import STEPS, Training, quality, train
from flashbulb.errors import DimensionMismatch
from labelled_texts import GROUPS, TEXTS

ROOT = Path(__file__).resolve().parents[1]
WORDS = [text for text, _ in TEXTS]
LABELS = [label for _, label in TEXTS]
NEW = {
    "critical": "The chapel boiler exploded this morning, two people hurt.",
    "mundane": "The chapel boiler stands by the window now.",
}

# An embedder of the user's own, in a module of the current folder.
MODULE = """
import numpy as np

class Vowels:
    name, dim, fingerprint = "vowels", 5, "0123456789abcdef"

    def embed_documents(self, texts):
        return np.array([[1.0 + text.count(v) for v in "aeiou"] for text in texts], np.float32)

    embed_queries = embed_documents

class Consonants(Vowels):
    name, fingerprint = "consonants", "fedcba9876543210"

ready = Vowels()
number = 7
"""


@pytest.fixture(scope="module")
def trained() -> Training:
    return train(WORDS, LABELS, groups=GROUPS)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "labels.tsv"
    rows = zip(WORDS, LABELS, GROUPS, strict=True)
    lines = ["text\tlabel\tpair", *("\t".join(row) for row in rows)]
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


# -- From Python ---------------------------------------------------------------------------------


def test_it_learns(trained: Training) -> None:
    model = trained.model
    assert [model(text).score > 0.5 for text in WORDS] == [label != "mundane" for label in LABELS]
    assert model(NEW["critical"]).critical > model(NEW["mundane"]).critical
    assert model(NEW["critical"]).critical > 0.5 > model(NEW["mundane"]).critical


def test_what_is_predicted_was_held_back(trained: Training) -> None:
    assert trained.probabilities.shape == (60, 3)
    assert trained.probabilities.sum(axis=1) == pytest.approx(np.ones(60))
    # A model is surer of what it was trained on than of what it has not seen.
    own = np.arange(60), [("mundane", "important", "critical").index(label) for label in LABELS]
    seen = np.array([trained.model(text).critical for text in WORDS[:20]])
    assert seen.mean() > trained.probabilities[own][:20].mean()


def test_training_again_gives_the_same_bytes(trained: Training, tmp_path: Path) -> None:
    again = train(tuple(WORDS), tuple(LABELS), groups=tuple(GROUPS))
    files = []
    for i, training in enumerate((trained, again)):
        training.model.save(tmp_path / str(i))
        files.append((tmp_path / str(i)).read_bytes())
    assert files[0] == files[1]
    assert len(files[0]) < 1_000_000
    assert b"greenhouse" not in files[0]


def test_a_trained_model_is_a_stage_of_the_detector(trained: Training, tmp_path: Path) -> None:
    path = tmp_path / "model.npz"
    trained.model.save(path)
    detector = ArousalDetector(model=ArousalModel.load(path))
    found = {stage.name: stage.score for stage in detector.detect(NEW["critical"]).stages}
    assert found["model"] == pytest.approx(trained.model(NEW["critical"]).score)
    with Memory(tmp_path / "agent.db", detector=detector) as memory:
        record = memory.remember(NEW["critical"])
    assert record.salience == pytest.approx(detector.detect(NEW["critical"]).score)


def test_progress_is_told(trained: Training) -> None:
    steps: list[int] = []
    train(WORDS, LABELS, groups=GROUPS, progress=steps.append)
    assert steps == [1] * STEPS


class NoEmbedder:
    """One that must not be asked: what is wrong is found before."""

    name, dim, fingerprint = "none", 2, "none"

    def embed_documents(self, texts: Any) -> Any:
        raise AssertionError("the embedder was asked")

    embed_queries = embed_documents


@pytest.mark.parametrize(
    ("texts", "labels", "groups", "message"),
    [
        (WORDS, LABELS[:-1], None, "expected 60 labels, got 59"),
        (WORDS, LABELS, GROUPS[:-1], "expected 60 groups, got 59"),
        (WORDS, [*LABELS[:-1], "boring"], None, "label 59 must be one of mundane.*got 'boring'"),
        ([], [], None, "expected at least 5 texts that are mundane, got 0"),
        (WORDS[:44], LABELS[:44], None, "expected at least 5 texts that are mundane, got 4"),
        (WORDS, LABELS, ["a", "b", "c", "d"] * 15, "expected at least 5 groups, got 4"),
        (WORDS, LABELS, [*"c" * 20, *GROUPS[20:]], "too few groups have a text that is critical"),
    ],
)
def test_bad_input_is_refused_before_training(
    texts: list[str], labels: list[str], groups: list[str] | None, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        train(texts, labels, groups=groups, embedder=NoEmbedder())


@pytest.mark.parametrize("texts", ["one text", [*WORDS[:-1], 7]])
def test_what_is_no_text_is_refused(texts: Any) -> None:
    with pytest.raises(TypeError, match=r"got (the single|int)"):
        train(texts, LABELS, embedder=NoEmbedder())


def test_scikit_learn_is_asked_for_by_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(ImportError, match=r"pip install 'flashbulb\[train\]'"):
        train(WORDS, LABELS, embedder=NoEmbedder())


def test_the_measures() -> None:
    # Of mundane, important, critical: scores 1, 0.8, 0.6, 0.
    rows = np.array([[0, 0, 1.0], [0.0, 0.5, 0.5], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]])
    found = quality(rows, np.array([True, False, True, False]), 0.8)
    assert found.f1 == pytest.approx(0.5)  # one of two found, one of two found rightly
    assert found.auroc == pytest.approx(0.75)
    # Bins: 1.0 (right), 0.5 (never critical), 0.0 (twice; once critical).
    assert found.calibration_error == pytest.approx((0.0 + 0.5 + 2 * 0.5) / 4)
    perfect = quality(rows, np.array([True, True, False, False]), 0.8)
    assert (perfect.f1, perfect.auroc) == (1.0, 1.0)


# -- The table -----------------------------------------------------------------------------------


def test_a_table_may_be_tab_separated_or_csv(tmp_path: Path) -> None:
    tabs, commas = tmp_path / "a.txt", tmp_path / "b.txt"
    rows = [('He said "stop", twice', "mundane", "a"), ('"No" is a word', "important", "")]
    tabs.write_text(
        "text\tlabel\tgroup\n" + "".join("\t".join(row) + "\n" for row in rows), "utf-8"
    )
    commas.write_text(
        "\ufefflabel,text,group,note\r\n"
        'mundane,"He said ""stop"", twice",a,x\r\n'
        'important,"""No"" is a word",,y\r\n',
        "utf-8",
    )
    found = read_labels(tabs)
    assert found == read_labels(commas)
    assert found.texts == [row[0] for row in rows]
    assert found.labels == [row[1] for row in rows]


def test_groups_pairs_and_repeats(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text(
        "text,label,group,pair\n"
        "a,mundane,g,1\n"
        "b,critical,g,2\n"
        "c,critical,,1\n"
        "d,mundane,,1\n"
        "e,mundane,,\n"
        "f,mundane,,\n"
        " a ,mundane,h,7\n",
        "utf-8",
    )
    found = read_labels(path)
    assert found.texts == ["a", "b", "c", "d", "e", "f"]
    a, b, c, d, e, f = found.groups
    assert (a, c) == (b, d)
    assert len({a, c, e, f}) == 4


# -- The command ---------------------------------------------------------------------------------


def test_the_command_trains_reports_and_says_how_to_go_on(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "model.npz"
    output.write_text("what was there", "utf-8")
    code, out, err = run(capsys, "train-arousal", str(table), "--output", str(output))
    assert (code, err) == (0, "")
    assert "60 texts (20 critical, 20 important, 20 mundane) in 15 groups" in out
    for name in ("F1 of critical texts at 0.8", "AUROC", "calibration error"):
        assert re.search(rf"{name} +[01]\.\d\d\d\n", out)
    assert f'ArousalDetector(model=ArousalModel.load("{output}"))' in out
    assert {path.name for path in tmp_path.iterdir()} == {"labels.tsv", "model.npz"}

    model = ArousalModel.load(output)
    code, out, _ = run(capsys, "explain", NEW["critical"], "--model", str(output), "--json")
    answer = json.loads(out)
    assert code == 0
    assert answer["model"]["critical"] == pytest.approx(model(NEW["critical"]).critical)
    assert {"hurt", "exploded"} <= {word for word, _ in answer["model"]["words"]}

    store = str(tmp_path / "agent.db")
    asked = ("remember", NEW["critical"], "--store", store, "--model", str(output), "--json")
    code, out, _ = run(capsys, *asked)
    detector = ArousalDetector(model=model)
    assert code == 0
    assert json.loads(out)["salience"] == pytest.approx(detector.detect(NEW["critical"]).score)


def test_the_command_as_json(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], trained: Training
) -> None:
    output = str(tmp_path / "model.npz")
    code, out, _ = run(capsys, "train-arousal", str(table), "--output", output, "--json")
    answer = json.loads(out)
    measured = quality(trained.probabilities, np.array(LABELS) == "critical", 0.8)
    assert code == 0
    assert (answer["output"], answer["texts"], answer["groups"]) == (output, 60, 15)
    assert answer["labels"] == {"critical": 20, "important": 20, "mundane": 20}
    assert answer["auroc"] == pytest.approx(measured.auroc)
    assert answer["f1"] == pytest.approx(measured.f1)
    assert answer["calibration_error"] == pytest.approx(measured.calibration_error)
    assert answer["bytes"] == Path(output).stat().st_size


@pytest.mark.parametrize(
    ("content", "messages"),
    [
        ("", ["has no first line with the names of the columns"]),
        ("text\tlabel\n", ["expected at least 5 texts that are mundane, got 0"]),
        ("text\tkind\nhello\tmundane\n", ["no column 'label'", "its columns are: text, kind"]),
        ("label,message\nmundane,hello\n", ["no column 'text'", "label, message"]),
        ("text\tlabel\tlabel\na\tb\tc\n", ["several columns 'label'"]),
        (
            "text\tlabel\nhello\tmundane\nfire\tCRITICAL\n",
            ["line 3: label must be one of mundane, important, critical, got 'CRITICAL'"],
        ),
        ("text\tlabel\n \tmundane\n", ["line 2: text must not be blank"]),
        ("text\tlabel\nhello\n", ["line 2: expected 2 columns as in the header, got 1"]),
        (
            "text\tlabel\nhello\tmundane\n\nhello\tcritical\n",
            ["line 4: critical, but the same text is mundane in line 2"],
        ),
        (b"text\tlabel\nh\xffllo\tmundane\n", ["line 2: text must be valid Unicode"]),
        ("text\tlabel\n" + "x\ty\n" * 30, ["has 30 bad rows", "and 20 more"]),
    ],
)
def test_a_bad_table_is_refused_with_its_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str | bytes, messages: list[str]
) -> None:
    path, output = tmp_path / "labels.tsv", tmp_path / "model.npz"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    code, out, err = run(capsys, "train-arousal", str(path), "--output", str(output))
    assert (code, out) == (2, "")
    for message in messages:
        assert message in err
    assert not output.exists()


def test_an_output_that_cannot_be_written_is_found_before_the_labels_are_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labels = tmp_path / "no.tsv"
    for output, message in (
        (tmp_path, "the output must be a file"),
        (tmp_path / "nowhere" / "model.npz", "there is no folder"),
        (tmp_path / "model.npz", f"cannot read {labels}: No such file"),
    ):
        code, _, err = run(capsys, "train-arousal", str(labels), "--output", str(output))
        assert code == 2
        assert message in err
    assert list(tmp_path.iterdir()) == []


def test_the_labels_are_not_replaced(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = table.read_bytes()
    code, _, err = run(capsys, "train-arousal", str(table), "--output", str(table))
    assert code == 2
    assert "would replace the labels" in err
    assert table.read_bytes() == before


def test_the_command_asks_for_scikit_learn(
    table: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    code, _, err = run(
        capsys, "train-arousal", str(table), "--output", str(table.with_name("m.npz"))
    )
    assert code == 2
    assert "pip install 'flashbulb[train]'" in err


def test_an_embedder_of_ones_own(
    table: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = "embedders_" + hashlib.sha256(str(tmp_path).encode()).hexdigest()[:8]
    (tmp_path / f"{name}.py").write_text(MODULE, "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    asked = ("train-arousal", str(table), "--output", "model.npz", "--json")
    code, out, err = run(capsys, *asked, "--embedder", f"{name}:Vowels")
    assert (code, err) == (0, "")
    assert json.loads(out)["embedder"] == "vowels"
    own = sys.modules[name]
    assert ArousalModel.load("model.npz", own.ready)(NEW["critical"]).score > 0.5
    with pytest.raises(DimensionMismatch, match=r"trained with the embedder 'vowels' \(5 dim"):
        ArousalModel.load("model.npz")

    # A store's embedder must be named if it is none of Flashbulb's, and is compared.
    for store, embedder in (("vowels.db", own.ready), ("default.db", None)):
        with Memory(store, embedder=embedder) as memory:
            memory.remember("hello")
    code, _, err = run(capsys, *asked, "--store", "vowels.db")
    assert code == 3
    assert "written with the embedder 'vowels'" in err
    assert "--embedder MODULE:NAME" in err
    code, _, err = run(capsys, *asked, "--store", "vowels.db", "--embedder", f"{name}:Consonants")
    assert code == 3
    assert "'consonants'" in err
    code, out, _ = run(capsys, *asked, "--store", "vowels.db", "--embedder", f"{name}:ready")
    assert (code, json.loads(out)["embedder"]) == (0, "vowels")
    code, out, _ = run(capsys, *asked, "--store", "default.db")
    assert (code, json.loads(out)["embedder"]) == (0, ArousalModel.default().head.embedder)
    code, _, err = run(capsys, *asked, "--store", "no.db")
    assert (code, "there is no store no.db" in err) == (3, True)

    for bad, message in (
        ("nonsense", "unknown embedder 'nonsense'"),
        ("no_such_module:x", "there is no embedder no_such_module:x"),
        (f"{name}:nothing", f"there is no embedder {name}:nothing"),
        (f"{name}:number", "got int"),
    ):
        code, _, err = run(capsys, *asked, "--embedder", bad)
        assert code == 2
        assert message in err


def test_a_model_that_is_none_is_refused_by_its_users(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = str(tmp_path / "agent.db")
    for model, message in (
        (str(table), "is not an arousal model"),
        (str(tmp_path / "no.npz"), "cannot read"),
    ):
        for asked in (("explain", "hello"), ("remember", "hello", "--store", store)):
            code, _, err = run(capsys, *asked, "--model", model)
            assert code == 2
            assert message in err
    assert not Path(store).exists()


# -- explain -------------------------------------------------------------------------------------


def test_explain_shows_the_words_that_moved_the_model(capsys: pytest.CaptureFixture[str]) -> None:
    text = "No data was lost last night"
    judged = ArousalModel.default()(text)
    _, out, _ = run(capsys, "explain", text)
    shown = f"model: critical {judged.critical:.2f}, important {judged.important:.2f}; by word:\n"
    assert shown in out
    assert re.search(r"^no -\d\.\d", out, re.MULTILINE)
    assert re.search(r" lost \+\d\.\d", out)


def test_explain_shows_the_words_that_the_model_saw(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "explain", "Data was lost. importance=1.0", "--json")
    answer = json.loads(out)
    model = [stage for stage in answer["stages"] if stage["name"] == "model"]
    score = answer["model"]["critical"] + 0.6 * answer["model"]["important"]
    assert model[0]["score"] == pytest.approx(score)
    assert "importance" not in dict(answer["model"]["words"])


def test_explain_colours_the_words_by_sign(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    _, out, _ = run(capsys, "explain", "No data was lost last night")
    assert re.search(r"no \x1b\[32m-\d\.\d", out)
    assert re.search(r"lost \x1b\[31m\+\d\.\d", out)


def test_explain_shows_nothing_of_a_model_that_saw_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, out, _ = run(capsys, "explain", "importance=1.0")
    assert "model: critical" not in out
    assert json.loads(run(capsys, "explain", "importance=1.0", "--json")[1])["model"] is None
