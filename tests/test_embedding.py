"""The bundled static table: always a vector, always the same one."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flashbulb.embedding import Embedder, StaticEmbedder, resolve_embedder
from flashbulb.embedding import static as static_module
from flashbulb.embedding.wordpiece import read_vocabulary

# Unit length in float32: 256 roundings of 2^-24 relative each, far below this.
UNIT = 1e-5

TEXTS = st.text(alphabet=st.characters(), max_size=60)  # lone surrogates too

ODD = [
    "",
    " ",
    "\n\t\r",
    "\x00",
    "\x00\x00\x01",
    "\u200b\ufeff",
    "...",
    "?!",
    "🎉",
    "🔥🔥🔥",
    "\ud800",
    "\U0010ffff",
    "\u0301",
    "ꙮ",
    "x" * 101,
    "y" * 5_000,
    "ไทย" * 60,
]


@pytest.fixture(scope="module")
def embedder() -> Embedder:
    return resolve_embedder()


def test_the_default_is_one_object(embedder: Embedder) -> None:
    assert resolve_embedder(None) is resolve_embedder("default") is embedder
    assert isinstance(embedder, Embedder)
    assert isinstance(embedder, StaticEmbedder)
    assert embedder.dim == 256


@given(texts=st.lists(TEXTS, max_size=8))
@settings(deadline=None)
def test_rows_are_finite_float32_unit_vectors(embedder: Embedder, texts: list[str]) -> None:
    vectors = embedder.embed_documents(texts)
    assert vectors.dtype == np.float32
    assert vectors.shape == (len(texts), 256)
    assert np.isfinite(vectors).all()
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=UNIT)


@pytest.mark.parametrize("text", ODD, ids=ascii)
def test_odd_texts_have_a_vector(embedder: Embedder, text: str) -> None:
    vector = embedder.embed_documents([text])[0]
    assert np.isfinite(vector).all()
    assert abs(np.linalg.norm(vector) - 1.0) < UNIT


def test_different_unknown_texts_differ(embedder: Embedder) -> None:
    # Invisible texts are told apart too; only surrounding white space is not.
    texts = ["", "\x00", "\u200b", "🎉", "🔥", "🎉🔥", "\ud800", "ꙮ", "x" * 101, "x" * 102]
    vectors = embedder.embed_documents(texts)
    cosines = vectors @ vectors.T
    assert (cosines[~np.eye(len(texts), dtype=bool)] < 0.99).all()
    same = embedder.embed_documents(["", " ", "\n\t"])
    assert (same == same[0]).all()


def test_unknown_characters_do_not_hide_the_word_they_touch(embedder: Embedder) -> None:
    plain, glued, other = embedder.embed_documents(["great party", "great🎉 party", "tax return"])
    assert plain @ glued > 0.7
    assert plain @ glued > plain @ other


@given(texts=st.lists(TEXTS, min_size=1, max_size=12), data=st.data())
@settings(deadline=None)
def test_a_vector_does_not_depend_on_its_batch(
    embedder: Embedder, texts: list[str], data: st.DataObject
) -> None:
    together = embedder.embed_documents(texts)
    order = data.draw(st.permutations(range(len(texts))))
    shuffled = embedder.embed_documents([texts[place] for place in order])
    for place, text in enumerate(texts):
        alone = embedder.embed_queries([text])[0]
        assert alone.tobytes() == together[place].tobytes()
    for row, place in zip(shuffled, order, strict=True):
        assert row.tobytes() == together[place].tobytes()


def test_batches_larger_than_the_inner_one(embedder: Embedder) -> None:
    texts = [
        f"memory {number} of the {number % 7} days in {number * 37}" for number in range(3_000)
    ]
    together = embedder.embed_documents(texts)
    for place in (0, 1, 700, 1_499, 2_999):
        assert embedder.embed_documents([texts[place]]).tobytes() == together[place].tobytes()


@pytest.mark.parametrize(
    "unit",
    ["the service is down. ", "naïve café 中文 🎉 ", "x", "🎉", "\u0e44\u0e17\u0e22", " ", "\x00"],
    ids=ascii,
)
def test_long_texts_are_read_whole_and_equal_the_short_way(
    embedder: Embedder, unit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = unit * 3_000
    usual = embedder.embed_documents([text, "end"])
    monkeypatch.setattr(static_module, "_LONG_TEXT", 100)
    assert embedder.embed_documents([text, "end"]).tobytes() == usual.tobytes()


def test_ten_mebibytes(embedder: Embedder) -> None:
    text = "The payment system is down, users cannot checkout. " * (10 * 2**20 // 51)
    whole, part = embedder.embed_documents([text, text[:51]])
    assert whole.tobytes() == part.tobytes()  # the mean of equal sentences is that sentence
    one_word = embedder.embed_documents(["a" * (10 * 2**20)])
    assert np.isfinite(one_word).all()


def test_what_is_alike_is_near(embedder: Embedder) -> None:
    question, *answers = embedder.embed_queries(
        [
            "Which critical outage hit the payments?",
            "The payment system is down",
            "We adopted a puppy in March",
            "User prefers dark mode",
        ]
    )
    assert int(np.argmax(np.stack(answers) @ question)) == 0


def test_case_and_accents_do_not_matter(embedder: Embedder) -> None:
    first, second = embedder.embed_documents(["Café in PARIS", "cafe in paris"])
    assert first.tobytes() == second.tobytes()


def test_the_fingerprint_follows_the_table(embedder: Embedder, tmp_path: Path) -> None:
    assert embedder.fingerprint == StaticEmbedder().fingerprint
    assert len(embedder.fingerprint) == 64
    _write_table(tmp_path)
    other = StaticEmbedder(tmp_path)
    assert other.fingerprint != embedder.fingerprint
    before = other.fingerprint
    _write_table(tmp_path, value=3)
    assert StaticEmbedder(tmp_path).fingerprint != before


def _write_table(folder: Path, *, value: int = 1) -> None:
    count = len(read_vocabulary())
    np.save(folder / "table.npy", np.full((count, 256), value, dtype=np.int8))
    np.save(folder / "scales.npy", np.ones(count + 1, dtype=np.uint16))


def test_a_table_of_another_shape_is_refused(tmp_path: Path) -> None:
    _write_table(tmp_path)
    np.save(tmp_path / "scales.npy", np.ones(7, dtype=np.uint16))
    with pytest.raises(ValueError, match=r"scales\.npy must hold uint16 .* got uint16 of \(7,\)"):
        StaticEmbedder(tmp_path).embed_documents(["text"])
    np.save(tmp_path / "table.npy", np.ones((7, 256), dtype=np.int8))
    with pytest.raises(ValueError, match=r"table\.npy must hold int8 .* got int8 of \(7, 256\)"):
        StaticEmbedder(tmp_path).embed_documents(["text"])


def test_rows_that_cancel_out_still_give_a_vector(tmp_path: Path) -> None:
    _write_table(tmp_path)
    table = np.load(tmp_path / "table.npy")
    vocabulary = read_vocabulary()
    table[vocabulary.index("yin")] = 1
    table[vocabulary.index("yang")] = -1
    np.save(tmp_path / "table.npy", table)
    vectors = StaticEmbedder(tmp_path).embed_documents(["yin yang", "yin"])
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=UNIT)


def test_threads_share_one_table() -> None:
    fresh = StaticEmbedder()
    texts = ["a fresh 🎉 table", "loaded by many threads at once", "x" * 200]
    expected = resolve_embedder().embed_documents(texts).tobytes()
    results: list[bytes] = []
    gate = threading.Barrier(8)

    def work() -> None:
        gate.wait()
        results.append(fresh.embed_documents(texts).tobytes())

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [expected] * 8


def test_no_texts(embedder: Embedder) -> None:
    assert embedder.embed_documents([]).shape == (0, 256)


def test_bad_arguments_name_what_came(embedder: Embedder) -> None:
    with pytest.raises(TypeError, match="texts must be a sequence of str, got the single"):
        embedder.embed_documents("not a list")
    with pytest.raises(TypeError, match="got int at position 1"):
        embedder.embed_documents(["fine", 3])  # type: ignore[list-item]
