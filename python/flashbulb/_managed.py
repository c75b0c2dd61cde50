"""A store as a whole: opening it, its namespaces, its files, closing it."""

from __future__ import annotations

import builtins
import copy
import os
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, TypeVar, get_args

from flashbulb import _reading, transfer
from flashbulb._check import (
    check_bool,
    check_count,
    check_file,
    check_id,
    check_namespace,
    check_path,
    check_timeout,
    is_one_of,
)
from flashbulb._duplicates import OnDuplicate, check_on_duplicate
from flashbulb._judging import Detector
from flashbulb._store import Space, Store
from flashbulb._time import Time, to_seconds
from flashbulb._why_not import not_found
from flashbulb.arousal import ArousalDetector, ArousalModel
from flashbulb.checking import Finding, check_store, findings
from flashbulb.embedding import resolve_embedder
from flashbulb.errors import ReadOnlyStore, StoreClosed
from flashbulb.photograph import Photographer
from flashbulb.policy import Policy
from flashbulb.reconsolidation import Reconsolidation
from flashbulb.records import NamespaceCount, Record, Stats
from flashbulb.retention import Retention, leaving
from flashbulb.storage.backup import Progress, copy_store
from flashbulb.storage.sqlite import Durability
from flashbulb.surprise import SurpriseMode

__all__ = ["ManagedStore"]

Self = TypeVar("Self", bound="ManagedStore")

DEFAULT_MEMORY_BUDGET = 1 << 30
"""Bytes; over a thousand namespaces of a thousand short memories."""


class ManagedStore:
    """What a ``Memory`` is beside what it remembers; its parameters are described there."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        embedder: Any = None,
        policy: Policy | None = None,
        detector: Detector | None = None,
        surprise: SurpriseMode | None = "combined",
        namespace: str = "default",
        photographer: Photographer | None = None,
        neutral: bool = False,
        durability: Durability = "full",
        timeout: float = 5.0,
        approximate: bool = False,
        memory_budget: int | None = DEFAULT_MEMORY_BUDGET,
        on_duplicate: OnDuplicate = "occurrence",
        reconsolidation: Reconsolidation | None = None,
        read_only: bool = False,
        clock: Callable[[], Time] = time.time,
    ) -> None:
        name = check_path(path)
        if policy is not None and not isinstance(policy, Policy):
            raise TypeError(f"policy must be a Policy, got {type(policy).__name__}")
        if surprise is not None and not is_one_of(surprise, get_args(SurpriseMode)):
            expected = ", ".join(map(repr, get_args(SurpriseMode)))
            raise ValueError(f"surprise must be None or one of {expected}, got {surprise!r:.80}")
        if not is_one_of(durability, ("full", "normal")):
            raise ValueError(f"durability must be 'full' or 'normal', got {durability!r:.80}")
        if not callable(clock):
            raise TypeError(f"clock must be callable, got {type(clock).__name__}")
        if detector is not None and not callable(getattr(detector, "detect", None)):
            raise TypeError(f"detector must have a detect method, got {type(detector).__name__}")
        if reconsolidation is not None and not isinstance(reconsolidation, Reconsolidation):
            kind = type(reconsolidation).__name__
            raise TypeError(f"reconsolidation must be a Reconsolidation, got {kind}")
        self._on_duplicate = check_on_duplicate(on_duplicate)
        self._reconsolidation = reconsolidation or Reconsolidation()
        wait = check_timeout(timeout)
        budget = None if memory_budget is None else check_count(memory_budget, "memory_budget")
        self._name = check_namespace(namespace)
        self._clock = clock
        self._neutral = check_bool(neutral, "neutral")
        if photographer is not None and not isinstance(photographer, Photographer):
            raise TypeError(
                f"photographer must be a Photographer, got {type(photographer).__name__}"
            )
        self._photographer = Photographer() if photographer is None else photographer
        self._embedder = resolve_embedder(embedder)
        self._detector: Detector | None = None
        if not neutral:
            if detector is None:
                detector = ArousalDetector(model=ArousalModel.for_embedder(self._embedder))
            self._detector = detector
        self._root: ManagedStore | None = None  # of a view: what keeps the store open
        self._closed = False
        self._store = Store(
            name,
            embedder=self._embedder,
            policy=policy,
            surprise=None if neutral else surprise,
            durability=durability,
            timeout=wait,
            approximate=check_bool(approximate, "approximate"),
            memory_budget=budget,
            now=self._now(None),
            read_only=check_bool(read_only, "read_only"),
        )
        # A Memory that is dropped, or open when the interpreter ends, is closed too.
        self._finalizer = weakref.finalize(self, self._store.close)

    def stats(self) -> Stats:
        """Counts of this namespace, and what the store is."""
        with self._open() as space:
            return _reading.stats(self._store, space)

    def __len__(self) -> int:
        with self._open() as space:
            return len(space.engine)

    def namespace(self: Self, name: str) -> Self:
        """The memories of another agent or user in the same store, apart from all others.

        The returned object needs no closing; it ends with the ``Memory`` that opened the store.
        """
        view = copy.copy(self)
        view._name = check_namespace(name)
        view._root = self if self._root is None else self._root
        with self._locked():
            return view

    def namespaces(self) -> list[NamespaceCount]:
        """The namespaces of the store that were ever written to, by name, and what each holds.

        One of which everything was forgotten one by one is among them, with 0 memories: its
        statistics stay until :meth:`forget_all`. No namespace is loaded for this; the memories are
        counted, which takes about a second for ten million.
        """
        with self._locked() as store:
            return store.namespaces()

    def apply_retention(
        self, policy: Retention, *, dry_run: bool = False, now: Time | None = None
    ) -> list[Record]:
        """Move what a policy says to the archive, in one transaction; return what was moved.

        What is in the archive takes no RAM; :meth:`recall` and :meth:`list` pass it over unless
        they are told ``include_archived=True``. Its vividness fades there as anywhere, and it is
        what it was when it comes back, see :meth:`restore`. Nothing moves but by this call.

        Parameters
        ----------
        policy : Retention
        dry_run : bool
            True: move nothing, only tell what would be.
        now : time, optional
        """
        if not isinstance(policy, Retention):
            raise TypeError(f"policy must be a Retention, got {type(policy).__name__}")
        moves = not check_bool(dry_run, "dry_run")
        moment = self._now(now)
        with self._open(writing=moves) as space:
            ids = leaving(self._store, space, policy, moment)
            records = _reading.records(self._store, space, ids, moment)
            if moves and ids:
                self._store.archive(space, ids, moment)
            return records

    def forget_all(self) -> int:
        """Forget everything of this namespace in one transaction; return how many memories it had.

        Its statistics of surprise go too: it is as if it had never been written to. Bytes leave
        the files at the next :meth:`compact`. Other namespaces stay as they are.
        """
        with self._open(writing=True) as space:
            return self._store.forget_all(space)

    def export(self, path: str | os.PathLike[str]) -> int:
        """Write this namespace to a file of JSON Lines; return the number of memories.

        A path that ends in ``.parquet`` becomes a Parquet file, which needs pyarrow (the extra
        ``parquet``). Either holds everything, vectors and strengths bit for bit. It replaces an
        older one only when it is complete.
        """
        with self._open() as space:
            return transfer.export(self._store, space, path)

    def import_(self, path: str | os.PathLike[str], *, new_ids: bool = False) -> int:
        """Add the memories of an exported file to this namespace; return their number.

        Memories keep their ids, so each must be above every id that the store has ever used, as
        in a new store; with `new_ids` they get the next free ones instead. Nothing is merged. A
        bad line or row is a ValueError that names it, and changes nothing.
        """
        new_ids = check_bool(new_ids, "new_ids")
        moment = self._now(None)
        with self._open(writing=True) as space:
            return transfer.import_(self._store, space, path, moment, new_ids=new_ids)

    def backup(
        self,
        path: str | os.PathLike[str],
        *,
        overwrite: bool = False,
        progress: Progress | None = None,
    ) -> None:
        """Copy the whole store, with all namespaces, to another file, which is a store too.

        The copy is the state of one moment. Other calls go on meanwhile, and other processes write
        if this ``Memory`` only reads. The file gets its name once it is complete and durable.

        Parameters
        ----------
        path : str or path
        overwrite : bool
            Whether a file that is there may be replaced; not one that is open as a store.
        progress : callable, optional
            Called with the number of pages that are copied and of all; if it raises, there is no
            copy.

        Raises
        ------
        FileExistsError
            If there is a file already, without `overwrite`.
        """
        target = os.path.realpath(check_file(path))
        check_bool(overwrite, "overwrite")
        if progress is not None and not callable(progress):
            raise TypeError(f"progress must be callable or None, got {type(progress).__name__}")
        with self._locked() as store:
            store.flush()
            if store.path == ":memory:":  # it has one connection, and no other can see it
                store.database.copy(target, overwrite=overwrite, progress=progress)
                return
        copy_store(store.path, target, overwrite=overwrite, progress=progress)

    def check(self) -> builtins.list[Finding]:
        """Look at everything in the store, all namespaces, as :func:`check_store` does.

        What is committed is looked at, while other calls go on. A store in RAM is held meanwhile.

        Returns
        -------
        list of Finding
            File, place and problem of what is not as it must be; empty if all is.
        """
        with self._locked() as store:
            if store.path == ":memory:":
                return builtins.list(findings(store.database.scan(), store.path))
        return check_store(store.path)

    def compact(self) -> None:
        """Give back the room of forgotten memories: afterwards no file holds their bytes.

        What an LLM said goes with the text that it was asked about: at :meth:`forget`, and here
        if that text was never stored after all, or has been replaced since.
        """
        with self._locked(writing=True) as store:
            store.compact()

    def refresh(self) -> bool:
        """Let a ``Memory`` that is open to be read only see what was written meanwhile.

        Returns
        -------
        bool
            Whether anything was, by whomever; False too if this one is open for writing.
        """
        with self._locked() as store:
            return store.refresh()

    def snapshot(self) -> None:
        """Write a file beside the store from which this namespace is opened much faster.

        :meth:`close` and :meth:`compact` do it when it pays: from 10,000 memories on, if one in
        twenty has changed since. This is for a process that may be killed before. Other calls wait
        meanwhile, about a second for a gigabyte. The store holds everything without the file, too:
        one that is missing, damaged or another one is not used, and ``stats()["snapshot"]`` and a
        warning say so.

        Raises
        ------
        StoreUnavailable
            If the file cannot be written; nothing is changed then.
        """
        with self._open(writing=True) as space:
            self._store.save_snapshot(space)

    def close(self) -> None:
        """Write what is still to be written and let the file go. A second call does nothing."""
        self._closed = True
        if self._root is None:
            self._finalizer()

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def detector(self) -> Detector | None:
        """What judges arousal; None in a neutral store."""
        return self._detector

    @property
    def policy(self) -> Policy:
        """The constants of the laws that hold in this store."""
        return self._store.policy

    @property
    def read_only(self) -> bool:
        """Whether the store was opened to be read only."""
        return self._store.read_only

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._store.path!r}, namespace={self._name!r})"

    # Within

    def _now(self, now: Time | None) -> float:
        return to_seconds(self._clock(), "clock()") if now is None else to_seconds(now, "now")

    @contextmanager
    def _locked(self, *, writing: bool = False) -> Iterator[Store]:
        """The store, under its lock."""
        if self._closed:
            raise StoreClosed(f"{self!r} is closed")
        with self._store.locked():
            if writing and self._store.read_only:
                raise ReadOnlyStore(f"{self!r} is open to be read only")
            yield self._store

    @contextmanager
    def _open(self, *, writing: bool = False) -> Iterator[Space]:
        """This namespace, under the store's lock."""
        with self._locked(writing=writing) as store:
            space = store.space(self._name)
            yield space
            store.used(space)

    def _known(self, space: Space, id: int) -> int:
        """The id, if this namespace has a memory with it, be it in the archive."""
        checked = check_id(id)
        if checked not in space.engine and checked not in space.archived:
            raise not_found(self._store, space, checked)
        return checked

    def _restored(self, space: Space, id: int) -> tuple[Space, int]:
        """As :meth:`_known`; what is used comes back from the archive, and the namespace anew."""
        known = self._known(space, id)
        return self._store.restore(space, (known,)), known

    def _record(self, space: Space, id: int, now: float) -> Record:
        if id in space.archived:
            space = self._store.with_archive(space, id)
        return _reading.records(self._store, space, [id], now)[0]
