"""Stores that an agent could keep its memories in: Flashbulb, and the nearest that others come.

Each does what Flashbulb's ``remember`` and ``recall`` do, as far as its own means go. A recall that
reinforces asks for the k nearest and the runners-up, counts the hits as used, strengthens them, and
weakens the runners-up that resemble a hit. None of the peers ranks by strength or by words; none
judges a text.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["PEERS", "Agent", "Durability", "Flashbulb", "Item", "Store", "World", "available"]

Vector = NDArray[np.float32]
Durability = Literal["full", "normal"]

K = 10
RUNNERS_UP = 20
CLOSE = 0.7
_GAIN, _LOSS = 0.1, 0.05
_TOPICS = 12


@dataclass(frozen=True)
class Item:
    """A memory of a namespace."""

    id: int
    text: str
    vector: Vector
    time: float


class World:
    """Memories that are the same for all: each namespace has its topics, a topic its words."""

    def __init__(self, rows: int, dim: int, start: float) -> None:
        self.rows = rows
        self.dim = dim
        self.start = start

    def items(self, number: int) -> list[Item]:
        """The memories of a namespace; those of one topic have a cosine of about 0.75."""
        rng = np.random.default_rng(number)
        topics = rng.standard_normal((_TOPICS, self.dim))
        of = rng.integers(0, _TOPICS, self.rows)
        vectors = topics[of] + 0.58 * rng.standard_normal((self.rows, self.dim))
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        words = rng.integers(0, 400, (self.rows, 10))
        first = number * self.rows + 1
        return [
            Item(
                first + i,
                f"memory {first + i}: " + " ".join(f"w{of[i]}x{word}" for word in words[i]),
                vectors[i].astype(np.float32),
                self.start + i,
            )
            for i in range(self.rows)
        ]

    def near(self, item: Item, rng: np.random.Generator) -> Vector:
        """A question about a memory, or another memory like it."""
        vector = item.vector + 0.5 * rng.standard_normal(self.dim) / math.sqrt(self.dim)
        return (vector / np.linalg.norm(vector)).astype(np.float32)


class Agent(Protocol):
    """One namespace of a store."""

    def remember(self, item: Item) -> None: ...

    def nearest(self, vector: Vector, k: int) -> list[int]:
        """Ids by similarity alone, best first, with the texts read."""

    def recall(self, text: str, vector: Vector) -> int:
        """The recall of an agent, which reinforces; how many memories it found."""


class Store(Protocol):
    """All namespaces."""

    name: ClassVar[str]
    note: ClassVar[str]

    def __init__(self, folder: Path, dim: int, durability: Durability) -> None: ...

    def fill(self, number: int, items: list[Item]) -> None:
        """Put a namespace on disk, in the quickest way there is."""

    def agent(self, number: int) -> Agent: ...

    def close(self) -> None: ...


def weakened(hits: Vector, others: Vector) -> NDArray[np.intp]:
    """Which of the runners-up resemble a hit."""
    if not len(others):
        return np.empty(0, np.intp)
    return np.flatnonzero((others @ hits.T).max(axis=1) > CLOSE)


def name_of(number: int) -> str:
    return f"agent-{number}"


# -- Flashbulb -----------------------------------------------------------------------------------


class Prepared:
    """An embedder that knows its answers: no contender is charged for embedding."""

    def __init__(self, dim: int) -> None:
        self._dim = dim
        self.answers: list[Vector] | None = None

    def __call__(self, texts: list[str]) -> NDArray[np.float32]:
        if self.answers is None:  # probes of the library
            return np.eye(len(texts), self._dim, dtype=np.float32)
        return np.array(self.answers, np.float32)


class Flashbulb:
    name = "Flashbulb"
    note = ""

    def __init__(self, folder: Path, dim: int, durability: Durability) -> None:
        from flashbulb import Memory

        self._prepared = Prepared(dim)
        self._memory = Memory(
            folder / "flashbulb.db",
            embedder=self._prepared,
            durability=durability,
            on_duplicate="keep",
        )
        self._memory.recall("probe")

    def fill(self, number: int, items: list[Item]) -> None:
        self._prepared.answers = [item.vector for item in items]
        view = self._memory.namespace(name_of(number))
        view.remember_many({"text": i.text, "arousal": 0.1, "now": i.time} for i in items)

    def agent(self, number: int) -> Agent:
        return _FlashbulbAgent(self._memory.namespace(name_of(number)), self._prepared)

    def close(self) -> None:
        self._memory.close()


class _FlashbulbAgent:
    def __init__(self, memory: Any, prepared: Prepared) -> None:
        self._memory = memory
        self._prepared = prepared

    def remember(self, item: Item) -> None:
        self._prepared.answers = [item.vector]
        self._memory.remember(item.text, now=item.time)

    def nearest(self, vector: Vector, k: int) -> list[int]:
        self._prepared.answers = [vector]
        hits = self._memory.recall("-", len(self._memory), reinforce=False)
        hits.sort(key=lambda hit: (-hit.cosine, hit.id))
        return [_number(hit.text) for hit in hits[:k]]

    def recall(self, text: str, vector: Vector) -> int:
        self._prepared.answers = [vector]
        return len(self._memory.recall(text, K))


def _number(text: str) -> int:
    """The id that an item has for the others."""
    return int(text.partition(":")[0].split()[1])


# -- sqlite-vec ----------------------------------------------------------------------------------


def _sqlite() -> Any:
    """A module of SQLite that loads extensions."""
    for name in ("sqlite3", "pysqlite3"):
        if find_spec(name) is not None:
            module = __import__(name)
            if hasattr(module.Connection, "enable_load_extension"):
                return module
    raise ImportError("sqlite-vec needs a Python whose sqlite3 loads extensions, or pysqlite3")


class SqliteVec:
    """A partition of a vec0 table for each namespace; the vectors are kept beside the texts too,
    where they are read by id without a scan."""

    name = "sqlite-vec"
    note = ""

    def __init__(self, folder: Path, dim: int, durability: Durability) -> None:
        import sqlite_vec

        self.connection = _sqlite().connect(folder / "sqlite-vec.db", isolation_level=None)
        self.connection.enable_load_extension(True)
        sqlite_vec.load(self.connection)
        run = self.connection.execute
        run("PRAGMA journal_mode = WAL")
        run(f"PRAGMA synchronous = {durability}")
        run("PRAGMA cache_size = -65536")
        run(
            "CREATE VIRTUAL TABLE IF NOT EXISTS near USING vec0 (id INTEGER PRIMARY KEY, "
            f"agent TEXT PARTITION KEY, vector FLOAT[{dim}] DISTANCE_METRIC=cosine)"
        )
        run(
            "CREATE TABLE IF NOT EXISTS memory (id INTEGER PRIMARY KEY, text TEXT, created REAL, "
            "used INTEGER, strength REAL, vector BLOB)"
        )

    def fill(self, number: int, items: list[Item]) -> None:
        self.connection.execute("BEGIN")
        agent = _SqliteVecAgent(self.connection, number)
        for item in items:
            agent.insert(item)
        self.connection.execute("COMMIT")

    def agent(self, number: int) -> Agent:
        return _SqliteVecAgent(self.connection, number)

    def close(self) -> None:
        self.connection.close()


class _SqliteVecAgent:
    def __init__(self, connection: Any, number: int) -> None:
        self._connection = connection
        self._name = name_of(number)

    def insert(self, item: Item) -> None:
        vector = item.vector.tobytes()
        run = self._connection.execute
        run("INSERT INTO near VALUES (?, ?, ?)", (item.id, self._name, vector))
        row = (item.id, item.text, item.time, 0, 1.0, vector)
        run("INSERT INTO memory VALUES (?, ?, ?, ?, ?, ?)", row)

    def remember(self, item: Item) -> None:
        self._connection.execute("BEGIN")
        self.insert(item)
        self._connection.execute("COMMIT")

    def _read(self, vector: Vector, k: int) -> list[tuple[Any, ...]]:
        found = self._connection.execute(
            "SELECT id FROM near WHERE vector MATCH ? AND agent = ? AND k = ?",
            (vector.tobytes(), self._name, k),
        ).fetchall()
        ids = [id for (id,) in found]
        marks = ", ".join("?" * len(ids))
        rows = self._connection.execute(
            f"SELECT id, text, created, strength, vector FROM memory WHERE id IN ({marks})", ids
        )
        by_id = {row[0]: row for row in rows}
        return [by_id[id] for id in ids]

    def nearest(self, vector: Vector, k: int) -> list[int]:
        return [row[0] for row in self._read(vector, k)]

    def recall(self, text: str, vector: Vector) -> int:
        rows = self._read(vector, K + RUNNERS_UP)
        vectors = np.frombuffer(b"".join(row[4] for row in rows), np.float32)
        vectors = vectors.reshape(len(rows), -1)
        hits = [(row[0],) for row in rows[:K]]
        weak = [(rows[K + i][0],) for i in weakened(vectors[:K], vectors[K:])]
        self._connection.execute("BEGIN")
        many = self._connection.executemany
        many(
            f"UPDATE memory SET used = used + 1, strength = min(strength + {_GAIN}, 1) "
            "WHERE id = ?",
            hits,
        )
        many(f"UPDATE memory SET strength = max(strength - {_LOSS}, 0) WHERE id = ?", weak)
        self._connection.execute("COMMIT")
        return len(hits)


# -- chromadb ------------------------------------------------------------------------------------


class Chroma:
    """A collection for each namespace."""

    name = "chromadb"
    note = "one mode"

    def __init__(self, folder: Path, dim: int, durability: Durability) -> None:
        import chromadb

        self.client = chromadb.PersistentClient(
            str(folder / "chroma"), settings=chromadb.Settings(anonymized_telemetry=False)
        )

    def fill(self, number: int, items: list[Item]) -> None:
        agent = _ChromaAgent(self.client, number, new=True)
        for start in range(0, len(items), 1000):
            agent.add(items[start : start + 1000])

    def agent(self, number: int) -> Agent:
        return _ChromaAgent(self.client, number, new=False)

    def close(self) -> None:
        pass


class _ChromaAgent:
    def __init__(self, client: Any, number: int, *, new: bool) -> None:
        if new:
            self._collection = client.create_collection(
                name_of(number),
                configuration={"hnsw": {"space": "cosine"}},
                embedding_function=None,
            )
        else:
            self._collection = client.get_collection(name_of(number), embedding_function=None)

    def add(self, items: list[Item]) -> None:
        self._collection.add(
            ids=[str(item.id) for item in items],
            embeddings=np.array([item.vector for item in items]),
            documents=[item.text for item in items],
            metadatas=[{"created": item.time, "used": 0, "strength": 1.0} for item in items],
        )

    def remember(self, item: Item) -> None:
        self.add([item])

    def nearest(self, vector: Vector, k: int) -> list[int]:
        found = self._collection.query(query_embeddings=vector[None], n_results=k)
        return [int(id) for id in found["ids"][0]]

    def recall(self, text: str, vector: Vector) -> int:
        found = self._collection.query(
            query_embeddings=vector[None],
            n_results=K + RUNNERS_UP,
            include=["documents", "metadatas", "embeddings"],
        )
        ids, facts = found["ids"][0], found["metadatas"][0]
        vectors = np.array(found["embeddings"][0], np.float32)
        weak = [K + int(i) for i in weakened(vectors[:K], vectors[K:])]
        for fact in facts[:K]:
            fact["used"] += 1
            fact["strength"] = min(fact["strength"] + _GAIN, 1.0)
        for i in weak:
            facts[i]["strength"] = max(facts[i]["strength"] - _LOSS, 0.0)
        changed = [*range(min(K, len(ids))), *weak]
        self._collection.update(
            ids=[ids[i] for i in changed], metadatas=[facts[i] for i in changed]
        )
        return min(K, len(ids))


# -- LanceDB -------------------------------------------------------------------------------------


class Lance:
    """A table for each namespace."""

    name = "lancedb"
    note = "one mode, without fsync"

    def __init__(self, folder: Path, dim: int, durability: Durability) -> None:
        import lancedb
        import pyarrow as pa

        self.database = lancedb.connect(str(folder / "lance"))
        self.schema = pa.schema(
            [
                ("id", pa.int64()),
                ("text", pa.string()),
                ("created", pa.float64()),
                ("used", pa.int64()),
                ("strength", pa.float64()),
                ("vector", pa.list_(pa.float32(), dim)),
            ]
        )

    def fill(self, number: int, items: list[Item]) -> None:
        self.database.create_table(name_of(number), rows_of(items, self.schema))

    def agent(self, number: int) -> Agent:
        return _LanceAgent(self.database.open_table(name_of(number)), self.schema)

    def close(self) -> None:
        pass


def rows_of(items: list[Item], schema: Any) -> Any:
    import pyarrow as pa

    return pa.table(
        {
            "id": [item.id for item in items],
            "text": [item.text for item in items],
            "created": [item.time for item in items],
            "used": [0] * len(items),
            "strength": [1.0] * len(items),
            "vector": [item.vector for item in items],
        },
        schema=schema,
    )


class _LanceAgent:
    def __init__(self, table: Any, schema: Any) -> None:
        self._table = table
        self._schema = schema

    def remember(self, item: Item) -> None:
        self._table.add(rows_of([item], self._schema))

    def _search(self, vector: Vector, k: int) -> Any:
        return self._table.search(vector).distance_type("cosine").limit(k).to_arrow()

    def nearest(self, vector: Vector, k: int) -> list[int]:
        found: list[int] = self._search(vector, k)["id"].to_pylist()
        return found

    def recall(self, text: str, vector: Vector) -> int:
        import pyarrow as pa

        found = self._search(vector, K + RUNNERS_UP)
        flat = found["vector"].combine_chunks().flatten().to_numpy()
        vectors = flat.reshape(len(found), -1)
        weak = K + weakened(vectors[:K], vectors[K:])
        used, strength = found["used"].to_numpy().copy(), found["strength"].to_numpy().copy()
        used[:K] += 1
        strength[:K] = np.minimum(strength[:K] + _GAIN, 1.0)
        strength[weak] = np.maximum(strength[weak] - _LOSS, 0.0)
        changed = np.concatenate([np.arange(min(K, len(found))), weak])
        rows = found.drop_columns(["_distance"]).to_pydict()
        rows["used"], rows["strength"] = used, strength
        table = pa.table(rows, schema=self._schema).take(changed)
        self._table.merge_insert("id").when_matched_update_all().execute(table)
        return min(K, len(found))


PEERS: tuple[type[Any], ...] = (SqliteVec, Chroma, Lance)
_MODULES = {"sqlite-vec": "sqlite_vec", "chromadb": "chromadb", "lancedb": "lancedb"}


def available() -> Iterator[type[Any]]:
    """The peers that are installed."""
    for peer in PEERS:
        if find_spec(_MODULES[peer.name]) is not None:
            yield peer
