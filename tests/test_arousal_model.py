"""The local model of arousal: its file, its embedder, what it reads of a text."""

from __future__ import annotations

import hashlib
import io
import json
import logging
import math
import pickle
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from flashbulb import ArousalDetector, Memory
from flashbulb.arousal import ArousalModel
from flashbulb.arousal.rules import RuleSet
from flashbulb.embedding import default_embedder
from flashbulb.errors import DimensionMismatch

MUNDANE = (
    "The meeting room has a new carpet.",
    "Someone left a blue umbrella by the stairs.",
    "We had soup for lunch, and it was fine.",
    "The bus was a little late, as always.",
    "My cousin likes the second season better.",
)
CRITICAL = "All patient records were deleted and there is no backup."
TEXTS = (
    *MUNDANE,
    CRITICAL,
    "No patient records were deleted.",
    "What does 'data loss' mean?",
    "Der Server steht seit heute früh still.",
    "患者的数据全部丢失了。",
    "ERROR db: disk full, writes rejected",
    " ".join((*MUNDANE, CRITICAL)),
)


class Letters:
    """An embedder that counts letters: not the one that the shipped model was trained with."""

    name = "letters"
    dim = 26
    fingerprint = hashlib.sha256(b"letters").hexdigest()

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        rows = [[1.0 + text.lower().count(chr(97 + i)) for i in range(26)] for text in texts]
        return np.array(rows, np.float32).reshape(-1, 26)

    embed_queries = embed_documents


class OtherWords(Letters):
    """One of the default's dimensions, yet another."""

    name = "other words"
    dim = default_embedder().dim
    fingerprint = hashlib.sha256(b"other words").hexdigest()


@pytest.fixture(scope="module")
def model() -> ArousalModel:
    return ArousalModel.default()


@pytest.fixture
def saved(model: ArousalModel, tmp_path: Path) -> Path:
    path = tmp_path / "model.npz"
    model.save(path)
    return path


# -- The file ------------------------------------------------------------------------------------


def test_a_saved_model_judges_as_before(model: ArousalModel, saved: Path) -> None:
    again = ArousalModel.load(saved)
    assert [again(text) for text in TEXTS] == [model(text) for text in TEXTS]
    again.save(saved)  # over itself
    assert [ArousalModel.load(saved)(text) for text in TEXTS] == [model(text) for text in TEXTS]
    assert [path.name for path in saved.parent.iterdir()] == ["model.npz"]


def test_saving_twice_gives_the_same_bytes(model: ArousalModel, saved: Path) -> None:
    before = saved.read_bytes()
    model.save(str(saved))
    assert saved.read_bytes() == before


def test_what_cannot_be_saved_leaves_what_was_there(model: ArousalModel, saved: Path) -> None:
    before = saved.read_bytes()
    nameless: Any = object()  # JSON cannot hold it
    with pytest.raises(TypeError):
        ArousalModel(replace(model.head, embedder=nameless), model.embedder).save(saved)
    assert saved.read_bytes() == before
    assert [path.name for path in saved.parent.iterdir()] == ["model.npz"]


def test_the_shipped_model_is_small_and_holds_no_text() -> None:
    shipped = resources.files("flashbulb.arousal").joinpath("data/model.npz")
    data = shipped.read_bytes()
    assert len(data) <= 1_000_000
    with np.load(io.BytesIO(data), allow_pickle=False) as stored:
        kinds = {name: stored[name].dtype.kind for name in stored.files}
        about = json.loads(stored["about"].tobytes())
    assert kinds == {"about": "u", "bias": "f", "embedding": "f", "hashed": "i", "scale": "f"}
    assert about.keys() == {"version", "embedder", "fingerprint"}
    assert about["fingerprint"] == default_embedder().fingerprint


class Trap:
    """Says so when a pickle of it is loaded."""

    sprung = False

    def __reduce__(self) -> tuple[Callable[[], None], tuple[()]]:
        return _spring, ()


def _spring() -> None:
    Trap.sprung = True


def npz(**arrays: Any) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def changed(good: bytes, **changes: Any) -> bytes:
    with np.load(io.BytesIO(good)) as stored:
        arrays = {name: stored[name] for name in stored.files}
    about = json.loads(arrays["about"].tobytes()) | changes.pop("about", {})
    arrays["about"] = np.frombuffer(json.dumps(about).encode(), np.uint8)
    return npz(**{name: value for name, value in (arrays | changes).items() if value is not None})


def flipped(good: bytes) -> bytes:
    middle = len(good) // 2
    return good[:middle] + bytes([good[middle] ^ 0xFF]) + good[middle + 1 :]


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda good: b"",
    "half": lambda good: good[: len(good) // 2],
    "without its end": lambda good: good[:-1],
    "a byte flipped": flipped,
    "text": lambda good: b"text\tlabel\nhello\tmundane\n",
    "a single array": lambda good: npy(np.zeros(3)),
    "a pickle": lambda good: pickle.dumps(Trap()),
    "a pickle inside": lambda good: changed(good, bias=np.array([Trap(), Trap()], dtype=object)),
    "nothing in it": lambda good: npz(),
    "another archive": lambda good: npz(weights=np.zeros(4)),
    "no bias": lambda good: changed(good, bias=None),
    "one array more": lambda good: changed(good, extra=np.zeros(2)),
    "another shape": lambda good: changed(good, scale=np.ones(3, np.float32)),
    "another type": lambda good: changed(good, bias=np.zeros(2)),
    "no number": lambda good: changed(good, bias=np.array([np.nan, 0.0], np.float32)),
    "a flat embedding": lambda good: changed(good, embedding=np.float32(1.0)),
    "no embedder": lambda good: changed(good, about={"embedder": None}),
    "not about it": lambda good: changed(good, about={"author": "me"}),
    "a newer version": lambda good: changed(good, about={"version": 2, "layers": 3}),
}


def npy(array: NDArray[Any]) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


@pytest.mark.parametrize("damage", DAMAGE)
def test_what_is_no_model_is_an_error_that_names_the_file(damage: str, saved: Path) -> None:
    saved.write_bytes(DAMAGE[damage](saved.read_bytes()))
    with pytest.raises(ValueError, match=r"model\.npz is not an arousal model: "):
        ArousalModel.load(saved)
    assert not Trap.sprung


def test_a_newer_version_says_what_to_do(saved: Path) -> None:
    saved.write_bytes(DAMAGE["a newer version"](saved.read_bytes()))
    with pytest.raises(ValueError, match="another version than 1; train it again"):
        ArousalModel.load(saved)


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        ArousalModel.load(tmp_path / "no.npz")
    with pytest.raises(ValueError, match="path must be a file, got the folder"):
        ArousalModel.load(tmp_path)


# -- The embedder --------------------------------------------------------------------------------


@pytest.mark.parametrize("other", [Letters(), OtherWords()])
def test_another_embedder_is_refused_and_both_are_named(saved: Path, other: Letters) -> None:
    with pytest.raises(DimensionMismatch) as caught:
        ArousalModel.load(saved, other)
    assert default_embedder().name in str(caught.value)
    assert other.name in str(caught.value)


def test_a_memory_with_another_embedder_judges_by_rules_and_says_so_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Unheard(Letters):
        name = "letters that no test has used yet"

    with caplog.at_level(logging.INFO, "flashbulb"):
        for _ in range(2):
            with Memory(":memory:", embedder=Unheard()) as memory:
                record = memory.remember(CRITICAL)
                assert isinstance(memory.detector, ArousalDetector)
                assert memory.detector.model is None
                assert record.salience == ArousalDetector(model=None).detect(CRITICAL).score
    notes = [r.getMessage() for r in caplog.records if "arousal model" in r.getMessage()]
    assert len(notes) == 1
    assert repr(Unheard.name) in notes[0]
    assert "flashbulb train-arousal" in notes[0]


def test_a_memory_with_the_default_embedder_has_the_model() -> None:
    with Memory(":memory:") as memory:
        assert isinstance(memory.detector, ArousalDetector)
        assert isinstance(memory.detector.model, ArousalModel)
        stages = [stage.name for stage in memory.detector.detect(CRITICAL).stages]
    assert stages == ["rules", "model"]


def test_a_vector_that_is_given_counts_as_the_one_that_is_computed(model: ArousalModel) -> None:
    vectors = model.embedder.embed_documents(TEXTS)
    for text, vector in zip(TEXTS, vectors, strict=True):
        for given in (vector, vector.tolist(), vector * 3):
            assert model(text, vector=given).score == pytest.approx(model(text).score, abs=1e-6)
    # And it does count.
    assert model(CRITICAL, vector=-vectors[5]).score != pytest.approx(model(CRITICAL).score)


@pytest.mark.parametrize("shape", [(), (255,), (257,), (1, 256), (256, 1), (0,)])
def test_a_vector_of_another_shape_is_refused(model: ArousalModel, shape: tuple[int, ...]) -> None:
    with pytest.raises(DimensionMismatch, match=r"vector must have shape \(256,\), got "):
        model(CRITICAL, vector=np.zeros(shape, np.float32))


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_vector_that_is_not_finite_is_reported(value: float) -> None:
    detector = ArousalDetector()
    result = detector.detect("Production is down.", vector=np.full(256, value, np.float32))
    assert result.fallback == "model: vector must be finite"
    assert [stage.name for stage in result.stages] == ["rules"]


# -- What it reads -------------------------------------------------------------------------------


def assert_judgement(found: Any) -> None:
    values = (found.score, found.confidence, found.critical, found.important)
    assert all(0.0 <= value <= 1.0 for value in values)
    assert found.score == pytest.approx(found.critical + 0.6 * found.important)
    assert found.confidence == max(found.score, 1.0 - found.score)


class Counting:
    """The default embedder, and how often it was called."""

    def __init__(self) -> None:
        own = default_embedder()
        self.name, self.dim, self.fingerprint = own.name, own.dim, own.fingerprint
        self.embed_queries = own.embed_queries
        self.calls = 0

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.calls += 1
        return default_embedder().embed_documents(texts)


def test_sentences_of_many_texts_are_embedded_at_once(model: ArousalModel) -> None:
    embedder = Counting()
    detector = ArousalDetector(model=ArousalModel(model.head, embedder))
    texts = [f"{a} {b}" for a in TEXTS for b in MUNDANE]
    together = detector.detect_many(texts)
    assert embedder.calls == 1
    assert together == [detector.detect(text) for text in texts]


def test_many_texts_at_once_are_judged_as_alone(model: ArousalModel) -> None:
    contexts = ["", "a fire drill"] * (len(TEXTS) // 2)
    assert model.judge_many(TEXTS, contexts) == list(map(model, TEXTS, contexts))
    assert model.judge_many(TEXTS) == list(map(model, TEXTS))
    assert model.judge_many([]) == []


def test_what_does_not_belong_to_texts_is_refused(model: ArousalModel) -> None:
    with pytest.raises(ValueError, match="expected 2 contexts, got 1"):
        model.judge_many(TEXTS[:2], ["a drill"])
    with pytest.raises(ValueError, match="expected 1 vectors, got 2"):
        model.judge_many(TEXTS[:1], vectors=[None, None])
    with pytest.raises(TypeError, match="texts must be"):
        model.judge_many(CRITICAL)
    with pytest.raises(TypeError, match="text must be a str, got int"):
        model.judge_many([7])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="context must be a str, got NoneType"):
        model(CRITICAL, None)  # type: ignore[arg-type]


def test_a_bad_vector_among_many_concerns_its_text_alone(model: ArousalModel) -> None:
    detector = ArousalDetector(model=model)
    vectors: list[Any] = [None] * len(TEXTS)
    vectors[2] = np.full(model.embedder.dim, np.nan)
    results = detector.detect_many(TEXTS, vectors=vectors)
    assert [bool(result.fallback) for result in results] == [i == 2 for i in range(len(TEXTS))]
    assert "must be finite" in str(results[2].fallback)
    assert results[3] == detector.detect(TEXTS[3])
    assert detector.statistics()["fallback.model"] == 1


@pytest.mark.parametrize(
    "text",
    ["", " ", "\n\t", "!", "?!?!", "...", "🙂", "\x00", "\u202e", "a", "0", "。", "'", "\ud800"],
)
def test_a_text_of_next_to_nothing_is_judged(model: ArousalModel, text: str) -> None:
    found = model(text)
    assert_judgement(found)
    assert found.score < 0.5
    assert all(np.isfinite(weight) for _, weight in model.contributions(text))


@pytest.mark.parametrize("part", ["word ", "a", "é", "漢", "x" * 5000 + ". "])
def test_a_megabyte_is_judged(model: ArousalModel, part: str) -> None:
    text = part * (1_000_000 // len(part.encode()))
    assert_judgement(model(text))
    assert len(model.contributions(text)) <= 600


def test_so_are_thousands_of_sentences(model: ArousalModel) -> None:
    assert_judgement(model("No. Yes? " * 5_000))


@pytest.mark.parametrize("place", [0, 20, 40])
def test_one_critical_sentence_among_many_is_found(model: ArousalModel, place: int) -> None:
    mundane = [MUNDANE[i % len(MUNDANE)] for i in range(40)]
    assert model(" ".join(mundane)).score < 0.3
    text = " ".join((*mundane[:place], CRITICAL, *mundane[place:]))
    assert model(text).score > 0.6
    words = [word for word, _ in model.contributions(text)]
    assert {"patient", "records", "deleted", "backup"} <= set(words)
    assert "umbrella" not in words[:3]


PAIRS = [
    ("No data was lost.", "Data was lost."),
    ("Is the server down?", "The server is down."),
    ("What is a data breach?", "That is a data breach."),
    ("Nobody was hurt in the fire.", "Somebody was hurt in the fire."),
    ("No customer records were stolen.", "Customer records were stolen."),
    ("Has anyone been injured?", "Everyone has been injured."),
    ("The backup was never deleted.", "The backup was deleted."),
    ("In the drill the warehouse was on fire.", "The warehouse was on fire."),
    ("The brakes do work.", "The brakes do not work."),
    ("A doctor can be reached.", "No doctor can be reached."),
    ("Did the bank freeze our account?", "The bank froze our account."),
    ("Nothing was stolen from the vault.", "Everything was stolen from the vault."),
    ("If the dam broke, we would flee.", "The dam broke and we had to flee."),
    ("The test expects a fatal error.", "There was a fatal error."),
    ("I am not allergic to nuts.", "I am allergic to nuts."),
    ("He is not in hospital.", "He is in hospital."),
    ("No patient records were deleted.", "Patient records were deleted."),
    ("The film is about a stolen child.", "It is about our stolen child."),
]


def test_the_order_and_the_small_words_matter(model: ArousalModel) -> None:
    for calm, alarming in PAIRS[:3]:
        assert model(calm).score < model(alarming).score
    # It is a linear model: no single pair is promised.
    gaps = [model(alarming).score - model(calm).score for calm, alarming in PAIRS]
    assert sum(gap > 0 for gap in gaps) >= 0.6 * len(PAIRS)
    assert np.mean(gaps) >= 0.1


def test_the_same_words_in_another_order_are_not_the_same(model: ArousalModel) -> None:
    same = "the dog was not harmed, the thief was", "the thief was not harmed, the dog was"
    vectors = model.embedder.embed_documents(same)
    assert vectors[0] @ vectors[1] > 0.999
    assert abs(model(same[0]).score - model(same[1]).score) > 1e-3


def test_a_context_that_says_it_is_not_real_counts(model: ArousalModel) -> None:
    framed = model(CRITICAL, "This is a scene from a novel.")
    assert framed.score == RuleSet.default().caps["framed"] < model(CRITICAL).score
    assert model(CRITICAL, "from the ward's log") == model(CRITICAL)


def test_case_and_spacing_change_nothing(model: ArousalModel) -> None:
    score = model("The ward has no power").score
    for text in ("THE WARD HAS NO POWER", "The  ward\thas no power\n"):
        assert model(text).score == pytest.approx(score, abs=1e-6)


def test_exclamation_marks_change_nothing(model: ArousalModel) -> None:
    text = "The ward has no power"
    vector = model.embedder.embed_documents([text + "!!!"])[0]
    assert model(text + "!!!") == model(text)
    assert model(text + "!!!", vector=vector) == model(text)


def test_a_label_in_front_changes_nothing(model: ArousalModel) -> None:
    assert model("URGENT: the ward has no power") == model("the ward has no power")


def test_a_neighbour_counts_where_it_says_that_nothing_happened(model: ArousalModel) -> None:
    alarming = "Intruders have taken the control room."
    beside = model(f"{alarming} Lunch was soup and bread.").score
    assert beside == pytest.approx(model(alarming).score, abs=0.05)
    assert model(f"{alarming} That was the drill.").score < beside


def test_words_are_told_with_what_they_add(model: ArousalModel) -> None:
    text = "No data was lost, was it?"
    words = model.contributions(text)
    found = dict(words)
    assert found.keys() == {"no", "data", "was", "lost", "it", "?"}
    assert found["no"] < 0 < found["lost"]

    def log_odds(text: str) -> float:
        judged = model(text)
        return float(np.log(judged.critical / (1.0 - judged.critical - judged.important)))

    folded = text.lower()
    assert found["lost"] == pytest.approx(log_odds(folded) - log_odds(folded.replace("lost", "")))
    strengths = [abs(weight) for _, weight in words]
    assert strengths == sorted(strengths, reverse=True)
    assert model.contributions("") == []


def test_many_threads_get_the_same(model: ArousalModel) -> None:
    alone = [model(text) for text in TEXTS]
    fresh = ArousalModel(model.head, model.embedder)  # nothing cached yet
    with ThreadPoolExecutor(8) as pool:
        runs = list(pool.map(lambda _: [fresh(text) for text in TEXTS], range(16)))
    assert runs == [alone] * 16


def test_the_sums_of_long_log_odds_do_not_overflow(model: ArousalModel) -> None:
    loud = replace(model.head, bias=np.array([1e4, -1e4], np.float32))
    found = ArousalModel(loud, model.embedder)(CRITICAL)
    assert (found.important, found.critical) == (1.0, 0.0)
