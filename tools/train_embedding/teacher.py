"""The teacher, all-MiniLM-L6-v2, over many texts: batched by length, remembered on disk."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from flashbulb.embedding.wordpiece import WordPiece, read_vocabulary

DIM = 384
_LONGEST = 128
_BATCH_TOKENS = 4_096


class Teacher:
    """Unit vectors from an ONNX file of the model (the fp32 one was used for the table)."""

    def __init__(self, model: Path, threads: int) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        self._session = onnxruntime.InferenceSession(str(model), options)
        self._inputs = {entry.name for entry in self._session.get_inputs()}
        self._tokenizer = WordPiece(read_vocabulary())

    def tokens(self) -> NDArray[np.float32]:
        """Every token of the vocabulary, run through the model alone: (tokens, 384)."""
        return self._run([[number] for number in range(len(read_vocabulary()))])

    def texts(self, texts: list[str], cache: Path) -> NDArray[np.float32]:
        """Vectors of texts, (n, 384). `cache` grows by what it lacks."""
        keys = [hashlib.blake2b(text.encode(), digest_size=16).hexdigest() for text in texts]
        known: dict[str, int] = {}
        vectors = np.empty((0, DIM), np.float32)
        if cache.exists():
            with np.load(cache) as stored:
                known = {key: row for row, key in enumerate(stored["keys"].tolist())}
                vectors = stored["vectors"]
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
        if missing:
            print(f"teacher: {len(missing)} new texts", flush=True)
            fresh = self._run([self._tokenizer.encode(text) for text in missing.values()])
            vectors = np.concatenate([vectors, fresh])
            known |= {key: len(known) + place for place, key in enumerate(missing)}
            np.savez(cache, keys=np.array(list(known)), vectors=vectors)
        return vectors[[known[key] for key in keys]]

    def _run(self, encoded: list[list[int]]) -> NDArray[np.float32]:
        rows = [self._tokenizer.wrapped(ids[: _LONGEST - 2]) for ids in encoded]
        order = sorted(range(len(rows)), key=lambda place: len(rows[place]))
        vectors = np.empty((len(rows), DIM), np.float32)
        start = 0
        while start < len(order):
            end = start + 1
            while end < len(order) and (end + 1 - start) * len(rows[order[end]]) <= _BATCH_TOKENS:
                end += 1
            batch = order[start:end]
            ids = np.zeros((len(batch), len(rows[batch[-1]])), np.int64)
            mask = np.zeros_like(ids)
            for line, place in enumerate(batch):
                ids[line, : len(rows[place])] = rows[place]
                mask[line, : len(rows[place])] = 1
            feed = {
                "input_ids": ids,
                "attention_mask": mask,
                "token_type_ids": np.zeros_like(ids),
            }
            hidden = self._session.run(None, {k: v for k, v in feed.items() if k in self._inputs})[
                0
            ]
            sums = (hidden * mask[:, :, None]).sum(axis=1)
            vectors[batch] = sums / np.linalg.norm(sums, axis=1, keepdims=True)
            start = end
        return vectors
