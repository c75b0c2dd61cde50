"""Random operations on a store, and how they are done: all by one seed."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import random
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crash.model import Answer, Model, Operation
from flashbulb import ArousalDetector, Memory, Policy, Retention
from flashbulb.arousal.llm import from_callable
from flashbulb.photograph import Photographer

BACKUP = "backup.db"
START = 1_700_000_000.0
NAMESPACES = ("default", "agent-7", "другой", "n" * 200)
TAGS = ("deploy", "billing", "家", "on call")
_DIM = 32  # of 200 such vectors no two are nearer than 0.8 to each other
_LONG = 9000  # characters of some words: more than two pages of the database
_ENOUGH = 60  # memories; above that, more is forgotten than remembered

_AROUSALS = (None, 0.1, 0.1, 0.1, 0.6, 0.6, 0.6, 0.9)  # None: the rules say it, later the LLM

# One of each, for a life of which every call is looked at.
LIFETIME = (
    "remember", "remember_many", "recall", "snapshot", "forget", "reconsolidate", "export",
    "compact", "remember", "snapshot", "backup", "retention", "recall", "reopen", "forget_all",
    "remember",
)  # fmt: skip

_WITH_ID = (
    "forget",
    "complete",
    "pin",
    "unpin",
    "reinforce",
    "reconsolidate",
    "forget_all",
    "snapshot",
)

# How often each kind of operation comes, where it can.
_SHARES = {
    "remember": 30, "remember_many": 12, "forget": 12, "complete": 6, "pin": 4, "unpin": 3,
    "recall": 20, "reinforce": 6, "reconsolidate": 6, "compact": 2, "reopen": 2, "rescore": 2,
    "export": 1, "backup": 1, "forget_all": 1, "snapshot": 5, "retention": 4,
}  # fmt: skip


class HashEmbedder:
    """A direction for each text, from its digest: nothing is near anything else."""

    name = "hash"
    dim = _DIM
    fingerprint = hashlib.blake2b(b"hash", digest_size=16).hexdigest()

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        digests = [hashlib.shake_128(text.encode()).digest(4 * _DIM) for text in texts]
        numbers = np.frombuffer(b"".join(digests), dtype="<i4").reshape(len(texts), _DIM)
        return (numbers / 2.0**31).astype(np.float32)

    embed_queries = embed_documents


def say(text: str) -> tuple[float, float]:
    """An LLM of few words: score and confidence."""
    return len(text) % 10 / 10, 0.9


@functools.cache
def detector() -> ArousalDetector:
    """Rules at once, the LLM at ``rescore``; a second to make."""
    return ArousalDetector(model=None, llm=from_callable(say, name="say"), deferred=True)


def warm_up() -> None:
    """What each child would have to make or import anew; neither SQLite nor FAISS is touched."""
    import_module("numpy.ma")  # of np.unique
    detector().detect("Production is down")
    given = dict.fromkeys(("who", "what", "when", "where"))
    Photographer().photograph("Down since yesterday", created=START, given=given)


def open_memory(
    path: str, detector: Any, *, weight: float | None = None, durability: Any = "full"
) -> Memory:
    """`weight`: a policy with this weight of vividness; None: the store's own policy."""
    policy = None if weight is None else Policy(vividness_weight=weight)
    return Memory(
        path,
        embedder=HashEmbedder(),
        detector=detector,
        policy=policy,
        durability=durability,
        clock=lambda: START,
    )


class Workload:
    """Draws operations that suit what is there: of these kinds in turn, or of any."""

    def __init__(self, seed: int, model: Model, kinds: Sequence[str] = ()) -> None:
        self._random = random.Random(seed)
        self._seed = seed
        self._model = model
        self._kinds = iter(kinds)
        self._words = 0

    def draw(self) -> Operation:
        random, model = self._random, self._model
        filled = [name for name in NAMESPACES if model.spaces.get(name)]
        kind = next(self._kinds, None)
        if kind is None:
            (kind,) = random.choices(list(_SHARES), list(_SHARES.values()))
            if kind.startswith("remember") and sum(map(len, model.spaces.values())) > _ENOUGH:
                kind = random.choice((kind, "forget", "forget", "forget"))
        namespace = random.choice((kind in _WITH_ID and filled) or NAMESPACES)
        space = model.spaces.get(namespace, {})
        tasks = [id for id, kept in space.items() if kept.status != "none"]
        if kind in ("remember", "remember_many") or (kind in _WITH_ID and not space):
            count = random.choice((2, 2, 5, 20)) if kind == "remember_many" else 1
            return {
                "kind": "remember_many" if count > 1 else "remember",
                "namespace": namespace,
                "items": [self._item(namespace) for _ in range(count)],
                "on_duplicate": random.choice(("occurrence", "occurrence", "keep")),
            }
        operation: Operation = {"kind": kind, "namespace": namespace}
        if kind == "complete" and not tasks:
            kind = operation["kind"] = "pin"
        if kind == "recall":
            texts = [kept.text for kept in space.values()] or ["anything"]
            operation |= {"query": random.choice(texts), "k": random.choice((1, 3, 10))}
        elif kind == "reinforce":
            operation["ids"] = random.sample(sorted(space), min(len(space), 3))
        elif kind == "reopen":
            operation = {"kind": kind, "policy": random.choice(("0.3", "0.25", "0.2"))}
        elif kind == "retention":
            operation["size"] = random.choice((0, 3, 10))
        elif kind == "export":
            operation["file"] = f"export-{NAMESPACES.index(namespace)}.jsonl"
        elif kind == "complete":
            operation["id"] = random.choice(tasks)
        elif kind in ("forget", "pin", "unpin", "reconsolidate"):
            operation["id"] = random.choice(sorted(space))
        if kind == "reconsolidate":
            operation["context"] = f"seen again as {self._word()}"
        return operation

    def _word(self) -> str:
        """That no other text has."""
        self._words += 1
        return hashlib.blake2b(f"{self._seed} {self._words}".encode(), digest_size=6).hexdigest()

    def _item(self, namespace: str) -> dict[str, Any]:
        random = self._random
        space = self._model.spaces.get(namespace, {})
        if space and random.random() < 0.2:  # a repeat
            kept = space[random.choice(sorted(space))]
            text, tags, task = kept.text, list(kept.tags), kept.status != "none"
        else:
            text = f"{self._word()} happened"
            if random.random() < 0.05:
                text += f" {'x' * _LONG}"
            tags = sorted(random.sample(TAGS, random.choice((0, 0, 1, 2))))
            task = random.random() < 0.3
        return {
            "text": text,
            "tags": tags,
            "metadata": {"n": random.randrange(10)},
            "urgency": 0.5 if task else None,
            "arousal": random.choice(_AROUSALS),
        }


class Performer:
    """Does operations on an open store; `folder` is where exports go."""

    def __init__(self, open: Callable[[float | None], Memory], folder: str) -> None:
        self._open = open
        self._folder = folder
        self.memory = open(None)

    def __call__(self, operation: Operation) -> Answer:
        kind = operation["kind"]
        if kind == "reopen":
            self.memory.close()
            self.memory = self._open(float(operation["policy"]))
            return {}
        view = self.memory.namespace(operation["namespace"])
        if kind in ("remember", "remember_many"):
            items, rule = operation["items"], operation["on_duplicate"]
            if kind == "remember":
                records = [view.remember(**items[0], on_duplicate=rule)]
            else:
                records = view.remember_many(items, on_duplicate=rule)
            return {"ids": [r.id for r in records], "pinned": [r.pinned for r in records]}
        if kind == "recall":
            hits = view.recall(operation["query"], operation["k"], include_archived=True)
            return {"counts": {hit.id: view.get(hit.id).access_count for hit in hits}}
        if kind == "reinforce":
            view.reinforce(operation["ids"])
            return {"counts": {id: view.get(id).access_count for id in operation["ids"]}}
        if kind == "reconsolidate":
            return {"text": view.reconsolidate(operation["id"], operation["context"]).text}
        if kind in ("forget", "complete", "pin", "unpin"):
            getattr(view, kind)(operation["id"])
            return {}
        if kind == "backup":
            view.backup(os.path.join(self._folder, BACKUP), overwrite=True)
            return {}
        if kind == "export":
            view.export(os.path.join(self._folder, operation["file"]))
            return {}
        if kind == "retention":
            view.apply_retention(Retention(size=operation["size"]))
            return {}
        if kind == "rescore":
            view.rescore(limit=5)
            return {}
        getattr(view, kind)()
        return {}


class Oracle:
    """What the child began and what returned, one JSON object a line, at once in the file."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def write(self, **said: Any) -> None:
        os.write(self._file, json.dumps(said).encode() + b"\n")
