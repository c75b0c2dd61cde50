"""Whatever a user already embeds with, made an `Embedder`; nothing is imported, only looked at."""

from __future__ import annotations

import hashlib
import inspect
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flashbulb.embedding.minilm import MiniLMEmbedder
from flashbulb.embedding.protocol import Embedder, check_texts, checked_vectors
from flashbulb.embedding.static import default_embedder

__all__ = ["AdaptedEmbedder", "CheckedEmbedder", "resolve_embedder"]

_PROBES = (
    "The payment system is down.",
    "User prefers dark mode",
    "what did Maria say about the 3 blue boxes?",
    "thanks!",
    "Grandmother bakes bread in a small village near the sea",
    "ERROR 2024-03-01 12:00:07 connection to 10.0.0.1 refused",
    "Der Zug nach Berlin hat Verspätung",
    "a",
)

_Function = Callable[[list[str]], Any]


class CheckedEmbedder:
    """Another `Embedder`, its output checked for shape and finite values."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self.name = self._string("name")

    @property
    def dim(self) -> int:
        return int(self._embedder.dim)

    @property
    def fingerprint(self) -> str:
        return self._string("fingerprint")

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self._checked(self._embedder.embed_documents, texts)

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self._checked(self._embedder.embed_queries, texts)

    def _string(self, attribute: str) -> str:
        value = getattr(self._embedder, attribute)
        if not isinstance(value, str):
            raise TypeError(
                f"an embedder's {attribute} must be a str, got {type(value).__name__} from "
                f"{type(self._embedder).__name__}"
            )
        return value

    def _checked(self, function: _Function, texts: Sequence[str]) -> NDArray[np.float32]:
        listed = check_texts(texts)
        if not listed:
            return np.empty((0, self.dim), dtype=np.float32)
        return checked_vectors(function(listed), count=len(listed), dim=self.dim, name=self.name)


class AdaptedEmbedder:
    """Two functions, one for documents and one for queries, as an `Embedder`.

    The dimension and the fingerprint come from the vectors of a few probe texts, embedded at the
    first need: no user code runs before. Whether calls may overlap is up to the functions.

    Parameters
    ----------
    name
        Shown in errors. Not part of the fingerprint: a function may move to another module.
    documents, queries
        Take a list of texts, return an array or nested lists of shape (n, dim).
    """

    def __init__(self, name: str, documents: _Function, queries: _Function) -> None:
        self.name = name
        self._documents = documents
        self._queries = queries
        self._lock = threading.Lock()
        self._probed: tuple[int, str] | None = None

    @property
    def dim(self) -> int:
        return self._probe()[0]

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the dimension and the largest component's place and sign for each probe.

        Rounded values would not do: among thousands, one always lies so close to the edge of
        rounding that another machine's numeric noise carries it over.
        """
        return self._probe()[1]

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self._embed(self._documents, texts)

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self._embed(self._queries, texts)

    def _embed(self, function: _Function, texts: Sequence[str]) -> NDArray[np.float32]:
        listed = check_texts(texts)
        if not listed:
            return np.empty((0, self.dim), dtype=np.float32)
        return checked_vectors(function(listed), count=len(listed), dim=self.dim, name=self.name)

    def _probe(self) -> tuple[int, str]:
        if self._probed is None:
            with self._lock:
                if self._probed is None:
                    self._probed = self._measure()
        return self._probed

    def _measure(self) -> tuple[int, str]:
        documents = self._probe_vectors(self._documents, None)
        dim = documents.shape[1]
        queries = self._probe_vectors(self._queries, dim)
        digest = hashlib.sha256(f"{dim}\0".encode())
        for vectors in (documents, queries):
            for vector in vectors:
                place = int(np.argmax(np.abs(vector)))
                digest.update(f"{place}{'-' if vector[place] < 0 else '+'}".encode())
        return dim, digest.hexdigest()

    def _probe_vectors(self, function: _Function, dim: int | None) -> NDArray[np.float32]:
        # A small model may know no word of a probe; that is no error before a user's text is one.
        output = function(list(_PROBES))
        return checked_vectors(output, count=len(_PROBES), dim=dim, name=self.name, allow_zero=True)


def resolve_embedder(embedder: Any = None) -> Embedder:
    """An `Embedder` from whatever stands for one.

    Parameters
    ----------
    embedder
        - None or ``"default"``: the bundled static table.
        - ``"minilm"``: all-MiniLM-L6-v2 on onnxruntime (extra ``minilm``).
        - an object that already is an `Embedder`.
        - a sentence-transformers model: has ``encode``, perhaps ``encode_document`` and
          ``encode_query``.
        - a LangChain ``Embeddings``: has ``embed_documents(list)`` and ``embed_query(text)``.
        - a Chroma embedding function: callable with a parameter ``input``; ``embed_query(input)``
          is used if it has one.
        - any callable from a list of texts to an array of shape (n, dim).

    Raises
    ------
    ValueError
        If a name is unknown.
    TypeError
        If it is nothing of these.

    Notes
    -----
    Nothing of the user's runs here: dimension and fingerprint are found at the first need. What
    an adapted embedder returns is checked at each call; the errors name what came.
    """
    if embedder is None:
        return default_embedder()
    if isinstance(embedder, str):
        if embedder == "default":
            return default_embedder()
        if embedder == "minilm":
            return MiniLMEmbedder()
        raise ValueError(f'unknown embedder {embedder!r}; known names are "default" and "minilm"')
    if isinstance(embedder, type):
        raise TypeError(f"expected an embedder, got the class {embedder.__name__}; call it first")
    if isinstance(embedder, (AdaptedEmbedder, CheckedEmbedder)):
        return embedder
    if _has(embedder, "embed_documents", "embed_queries") and all(
        hasattr(type(embedder), name) or name in getattr(embedder, "__dict__", ())
        for name in ("name", "dim", "fingerprint")
    ):
        return CheckedEmbedder(embedder)
    if _has(embedder, "encode"):
        return _sentence_transformer(embedder)
    if _has(embedder, "embed_documents", "embed_query"):
        return _langchain(embedder)
    if callable(embedder):
        return _function(embedder)
    raise TypeError(
        "expected None, a name, an embedder, a LangChain Embeddings, a sentence-transformers "
        "model, a Chroma embedding function or a callable from a list of texts to an array, got "
        f"{type(embedder).__name__}"
    )


def _has(value: object, *methods: str) -> bool:
    return all(callable(getattr(value, method, None)) for method in methods)


def _qualified_name(value: object) -> str:
    kind = value if hasattr(value, "__qualname__") else type(value)
    return f"{kind.__module__}.{kind.__qualname__}"


def _model_name(model: object) -> str:
    """The type's name, and the model's where an attribute tells it."""
    for attribute in ("model_name", "model_name_or_path", "model"):
        value = getattr(model, attribute, None)
        if isinstance(value, str) and value:
            return f"{_qualified_name(model)}({value})"
    return _qualified_name(model)


def _sentence_transformer(model: Any) -> AdaptedEmbedder:
    def encoder(preferred: str) -> _Function:
        function = getattr(model, preferred, None)
        if not callable(function):
            function = model.encode
        quiet = {"show_progress_bar": False} if _takes(function, "show_progress_bar") else {}
        return lambda texts: _as_numpy(function(texts, **quiet))

    return AdaptedEmbedder(_model_name(model), encoder("encode_document"), encoder("encode_query"))


def _langchain(model: Any) -> AdaptedEmbedder:
    return AdaptedEmbedder(
        _model_name(model),
        model.embed_documents,
        lambda texts: [model.embed_query(text) for text in texts],
    )


def _function(function: Callable[..., Any]) -> AdaptedEmbedder:
    by_name = _takes(function, "input")

    def call(texts: list[str]) -> Any:
        return _as_numpy(function(input=texts) if by_name else function(texts))

    queries = getattr(function, "embed_query", None)
    if by_name and callable(queries):  # Chroma
        return AdaptedEmbedder(
            _model_name(function), call, lambda texts: _as_numpy(queries(input=texts))
        )
    return AdaptedEmbedder(_model_name(function), call, call)


def _takes(function: Callable[..., Any], parameter: str) -> bool:
    """Whether a function takes an argument by exactly this name."""
    try:
        found = inspect.signature(function).parameters.get(parameter)
    except (TypeError, ValueError):  # builtins without a signature
        return False
    return found is not None and found.kind is not inspect.Parameter.POSITIONAL_ONLY


def _as_numpy(output: Any) -> Any:
    """Tensors that are on a device or need a gradient, made something `numpy` can read."""
    if callable(getattr(output, "detach", None)) and callable(getattr(output, "cpu", None)):
        return output.detach().cpu().numpy()
    return output
