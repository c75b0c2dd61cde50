"""Memory: text in, explained hits out."""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from flashbulb import _reading
from flashbulb._check import (
    HIGHEST_ID,
    MAX_BATCH,
    check_bool,
    check_count,
    check_id,
    check_items,
    check_status,
    check_tags,
    check_text,
)
from flashbulb._draft import Draft
from flashbulb._duplicates import (
    Answers,
    OnDuplicate,
    ask,
    brought_back,
    check_on_duplicate,
    plan,
    remembered,
)
from flashbulb._judging import KeptAnswers, judge, settle
from flashbulb._managed import ManagedStore
from flashbulb._recalling import Question, answer
from flashbulb._rewriting import developed, history, present, rewrite
from flashbulb._store import Space
from flashbulb._time import Time
from flashbulb._why_not import WhyNot, why_not
from flashbulb._writing import store_drafts, take
from flashbulb.arousal import ArousalDetector
from flashbulb.errors import MemoryNotFound, ReadOnlyStore
from flashbulb.photograph import Photographer
from flashbulb.records import Hit, Record, Version
from flashbulb.storage.sqlite import Database

__all__ = ["Memory"]

_RESCORED_TOGETHER = 256


class Memory(ManagedStore):
    """A store of memories that fade, but not below what their importance keeps.

    Times are aware datetimes or seconds since 1970-01-01 UTC; `now` of a call is by default what
    the clock says. Safe to use from several threads; the embedder and the detector are called
    without any lock. A forked child can use other stores, but not one that was open at the fork.

    Parameters
    ----------
    path : str or path
        The store's file, created if it is not there; ":memory:" keeps it in RAM.
    embedder : optional
        Whatever ``resolve_embedder`` takes; by default the static table of the package.
    policy : Policy, optional
        The constants of the laws. By default those that the store was written with, and
        ``Policy()`` for a new store. Another policy holds from this moment on: what the old one
        did until now stays.
    detector : optional
        Judges arousal: any object with ``detect(text, context)`` that returns a ``score`` in
        [0, 1] and a ``source``. By default an ``ArousalDetector`` of rules and, if one comes for
        this embedder, the local model. What the LLM of an ``ArousalDetector`` says is kept in the
        store; :meth:`rescore` asks it what it was not asked, or did not answer.
    surprise : {"combined", "centroid", "neighbours", None}
        How unusual an embedding is, or None: off. Each mode keeps its own statistics.
    namespace : str
        Which of the store's memories this object sees; see :meth:`namespace`.
    photographer : Photographer, optional
        Finds who, what, when and where of a flashbulb. By default ``Photographer()``, which asks
        no LLM. A flashbulb by surprise alone is looked at by patterns only.
    neutral : bool
        For factual stores: no arousal, no surprise; ranks by similarity and recency.
    durability : {"full", "normal"}
        What a `remember` or `forget` that returned survives: a power failure, or the end of the
        process, however it comes. Reinforcement by recalls is written after 64 recalls or a
        second, by the next call that recalls or writes, and by :meth:`close`.
    timeout : float
        Seconds to wait for a store that another process has open.
    approximate : bool
        True: recalls from 200,000 memories or more look only at those that are near the question,
        at all flashbulbs, and at what shares its words, see :meth:`Engine.search`. False: at all.
    memory_budget : int or None
        Bytes of RAM that the namespaces of the store may take together, by default 1 GiB; None:
        any number. A namespace is loaded when it is first used; beyond the budget the least
        recently used ones leave RAM, and are loaded again when they are used. Nothing is lost by
        that. The namespace in use stays, whatever it takes. Counted are vectors and strengths
        (``Engine.memory_bytes``), and words and statistics, which are estimated.
    on_duplicate : {"occurrence", "keep"} or callable
        What becomes of a text that is remembered again, where `remember` is not told otherwise.
    reconsolidation : Reconsolidation, optional
        What :meth:`reconsolidate` makes of a text and a context; by default it only appends.
    read_only : bool
        True: show the newest committed state of the store, which stays the same until
        :meth:`refresh`, and change nothing; what would is a ReadOnlyStore. Takes no lock: any
        number of processes, and of objects in one, may read while one writes. As long as one is
        open, the writer's log (``-wal``) grows and :meth:`compact` is refused. A file that may not
        be written to can be read, in a folder that may not be written to as well.
    clock : callable
        Returns the present time.

    Raises
    ------
    StoreLocked
        If the store is open elsewhere: one process, one ``Memory`` may have it open for writing.
        Or if its file has a second name (a hard link), under which others could open it.
    ReadOnlyStore
        If it is to be read only, but must be changed first: it is empty, of an older version, or
        has another policy than is wanted.
    StoreForked
        If the file was open in the process that this one was forked from.
    EmbedderMismatch
        If the store was written with another embedder.
    CorruptStore
        If the file is no Flashbulb store, damaged, or of a newer version.
    StoreUnavailable
        If the file system does not let it be used; so too from every call that reads or writes.
    """

    # Writing

    def remember(
        self,
        text: str,
        *,
        context: str = "",
        tags: Iterable[str] = (),
        metadata: dict[str, Any] | None = None,
        urgency: float | None = None,
        who: str | None = None,
        what: str | None = None,
        when: str | Time | None = None,
        where: str | None = None,
        arousal: float | None = None,
        on_duplicate: OnDuplicate | None = None,
        now: Time | None = None,
    ) -> Record:
        """Store a text, durably when this returns.

        The same text (white space aside) in the same namespace with equal tags, who, what, when,
        where and urgency becomes one more occurrence of the stored memory, with its own time and
        metadata; no strength changes. A completed task is not repeated but remembered anew.

        Any other text becomes a memory of its own, however like it is: an update or a negation may
        differ by a word. The nearest memory of the namespace is reported as the record's
        ``near_duplicate``, if its cosine is at least ``policy.near_duplicate_cosine``.

        Parameters
        ----------
        text : str
            Comes back as it was given, byte for byte: no composing, no trimming. Sizes are bounded,
            see docs/limits.md; what is larger is a ValueError.
        context : str
            Taken into account for arousal only; not stored.
        tags : sequence of str
        metadata : dict
            What JSON can hold, at most 32 levels deep; comes back equal.
        urgency : float in [0, 1], optional
            Makes the memory an open task.
        who, what, where : str, optional
        when : str, aware datetime or epoch seconds, optional
            What the memory is about, not when it is stored; kept as text.
        arousal : float in [0, 1], optional
            In place of what the detector would say.
        on_duplicate : {"occurrence", "keep"} or callable, optional
            In place of what this object was made with. "occurrence": as above. "keep": the same
            text becomes another memory. A callable is asked for each repeat and for each text with
            a near duplicate, with the record of the memory that is there and the new text, and
            returns one of the two; it is called without any lock, and asked again if that memory
            changes meanwhile. What is to be stored together with the new text has the id 0.
        now : time, optional
            When it happens, if not at this moment.
        """
        item = {
            "text": text,
            "context": context,
            "tags": tags,
            "metadata": metadata,
            "urgency": urgency,
            "who": who,
            "what": what,
            "when": when,
            "where": where,
            "arousal": arousal,
        }
        return self._remember([Draft.of(item, self._now(now))], on_duplicate)[0]

    def remember_many(
        self,
        items: Iterable[str | Mapping[str, Any]],
        *,
        on_duplicate: OnDuplicate | None = None,
        now: Time | None = None,
    ) -> builtins.list[Record]:
        """Store many memories in one transaction: all of them, or none if one is bad.

        Parameters
        ----------
        items : iterable of str or dict
            A text, or the arguments of :meth:`remember` by name, `now` among them.
        on_duplicate : {"occurrence", "keep"} or callable, optional
            As of :meth:`remember`, for all items; an item may repeat an earlier one.

        Returns
        -------
        list of Record
            One for each item, as it stands at the item's `now`.
        """
        common = self._now(now)
        given = check_items(items, "items", "memories", at_most=MAX_BATCH)
        drafts = [Draft.numbered(i, item, common) for i, item in enumerate(given)]
        return self._remember(drafts, on_duplicate)

    def _remember(
        self, drafts: Sequence[Draft], on_duplicate: OnDuplicate | None
    ) -> builtins.list[Record]:
        wanted = self._on_duplicate if on_duplicate is None else check_on_duplicate(on_duplicate)
        with self._locked(writing=True):
            pass  # a closed store says so before the embedder works
        if not drafts:
            return []
        vectors = self._embedder.embed_documents([draft.text for draft in drafts])
        arousals = judge(self._detector, drafts, vectors, self._store)
        threshold = self._store.policy.flashbulb_threshold
        critical = [arousal.score >= threshold for arousal in arousals]
        photographs = take(self._photographer, drafts, critical)
        answers: Answers = {}  # of a callable
        while True:
            with self._open(writing=True) as space:
                rule = answers if callable(wanted) else wanted
                if rule != "keep":
                    space = brought_back(self._store, space, drafts)
                verdicts, questions = plan(self._store, space, drafts, vectors, arousals, rule)
                if not questions:
                    repeats = [verdict.repeats for verdict in verdicts]
                    ids = store_drafts(
                        self._store, space, drafts, vectors, arousals, photographs, repeats
                    )
                    return remembered(self._store, space, drafts, ids, verdicts)
            if callable(wanted):
                answers.update((question.key, ask(wanted, question)) for question in questions)

    def forget(self, id: int) -> bool:
        """Remove a memory from every read path at once; False if there is none with this id.

        Its bytes leave the files at the next :meth:`compact`.
        """
        with self._open(writing=True) as space:
            try:
                id = check_id(id)
            except MemoryNotFound:
                return False
            if id not in space.engine and id not in space.archived:
                return False
            text = self._store.database.rows([id])[id].text
            with self._store.changing(space) as database:
                database.delete(id)
                if id in space.archived:
                    space.archived.discard(id)
                    return True
                space.engine.remove(id)
                space.surprise_pins.discard(id)
                if space.lexical is not None:
                    space.lexical.remove(id, text)
            return True

    def complete(self, id: int, *, now: Time | None = None) -> Record:
        """Mark a task as done: it is unpinned, and its floor falls by one class.

        Completing a task again changes nothing. What is not a task is a ValueError.
        """
        moment = self._now(now)
        with self._open(writing=True) as space:
            space, known = self._restored(space, id)
            record = self._record(space, known, moment)
            if record.status == "none":
                raise ValueError(f"memory {known} is not a task: it was remembered without urgency")
            if record.status == "completed":
                return record
            with self._store.changing(space) as database:
                space.engine.complete(known, moment)
                _persist(database, space, known, pinned_by=None)
            return self._record(space, known, moment)

    def pin(self, id: int, *, now: Time | None = None) -> Record:
        """Hold a memory at full vividness until it is unpinned, completed or forgotten."""
        moment = self._now(now)
        with self._open(writing=True) as space:
            space, known = self._restored(space, id)
            with self._store.changing(space) as database:
                space.engine.pin(known, now=moment)
                _persist(database, space, known, pinned_by="user")
            return self._record(space, known, moment)

    def unpin(self, id: int, *, now: Time | None = None) -> Record:
        """Let a pinned memory fade again, from this moment on."""
        moment = self._now(now)
        with self._open(writing=True) as space:
            space, known = self._restored(space, id)
            with self._store.changing(space) as database:
                space.engine.unpin(known, now=moment)
                _persist(database, space, known, pinned_by=None)
            return self._record(space, known, moment)

    def reconsolidate(self, id: int, context: str, *, now: Time | None = None) -> Record:
        """Let a memory take in what a new context adds.

        The text of a vivid memory (of a salience above ``policy.reconsolidation_protects_above``)
        stays, with an addition: ``content [enhancement]``; its vividness rises by
        ``policy.reconsolidation_boost``, up to 1, at most once an hour like every change of
        strength. Into any other the context is integrated, and no strength changes. What the
        context adds is for the :class:`Reconsolidation` of this object to say; if that is nothing,
        nothing changes.

        Of a flashbulb, what the new words say of who, what, when and where fills the fields that
        are empty. Id, tags, metadata, occurrences, arousal, salience, access count and pin stay;
        vector, words and repeats are those of the new text. The texts before stay in the
        :meth:`history`.

        Its functions and the embedder are called without any lock. If the memory changes meanwhile,
        they are asked again about the text that it has then; if it is forgotten, this is a
        MemoryNotFound. What they raise comes out, and the memory is what it was.

        Parameters
        ----------
        id : int
        context : str
            In which the memory came up.
        now : time, optional
            When that was. In the history no text is older than the one before it: a time before
            the present text's own counts as that.
        """
        moment = self._now(now)
        context = check_text(context, "context")
        while True:
            with self._open(writing=True) as space:
                space, known = self._restored(space, id)
                before = present(self._store, space, known)
            change = self._reconsolidation.change(
                before.row.text, context, protected=before.protected
            )
            if change is not None:
                vector = self._embedder.embed_documents([change.text])[0]
                critical = before.row.arousal >= self._store.policy.flashbulb_threshold
                photographer = self._photographer if critical else Photographer()
                photograph = developed(photographer, before.row, change, context, moment)
            with self._open(writing=True) as space:
                space, _ = self._restored(space, known)
                if present(self._store, space, known) != before:
                    continue
                if change is not None:
                    rewrite(self._store, space, known, change, vector, photograph, moment)
                return self._record(space, known, moment)

    def rescore(self, *, limit: int | None = None, now: Time | None = None) -> int:
        """Ask the detector's LLM about what it has not scored yet; return how many it has now.

        These are the memories that an ``ArousalDetector(deferred=True)`` left to it, and those
        about which it could not be asked (no answer in time, no budget, an error) or gave an answer
        that was no judgement. Until then they have the score of the cheaper stages; from then on
        salience, floor and flashbulb are as if the LLM had been asked at once, and vividness is not
        below the floor. What fails again is left for the next call, of this process or another:
        nothing is lost by closing. Only the third answer that is no judgement, or the third refusal
        of the text by the server, settles the score of the cheaper stages.

        Parameters
        ----------
        limit : int, optional
            How many at most; by default all. Those that the LLM was asked about least often come
            first, then the oldest.

        Raises
        ------
        ValueError
            If the detector has no LLM.
        """
        count = None if limit is None else min(check_count(limit, "limit"), HIGHEST_ID)
        moment = self._now(now)
        detector = self._detector
        if not isinstance(detector, ArousalDetector) or not detector.asks_llm:
            raise ValueError(
                "there is no LLM to ask: open the Memory with ArousalDetector(llm=...)"
            )
        with self._open(writing=True) as space:
            number = -1 if space.number is None else space.number
            ids = self._store.database.deferred(number, count)
        settled = 0
        threshold = self._store.policy.flashbulb_threshold
        for start in range(0, len(ids), _RESCORED_TOGETHER):
            with self._open(writing=True) as space:
                some = [id for id in ids[start : start + _RESCORED_TOGETHER] if id in space.engine]
                found = self._store.database.rows(some)
                rows = [found[id] for id in some]
                vectors = space.engine.vectors(np.array([row.id for row in rows], np.int64))
            results = detector.settle(
                [row.text for row in rows],
                [row.deferred_context for row in rows],
                vectors=list(vectors),
                cache=KeptAnswers(self._store),
            )
            critical = [result.score >= threshold for result in results]
            photographs = take(self._photographer, rows, critical)
            with self._open(writing=True) as space:
                settled += settle(self._store, space, rows, results, photographs, moment)
        return settled

    def reinforce(self, ids: int | Iterable[int], *, now: Time | None = None) -> None:
        """Count these memories as used, and strengthen each, at most once an hour.

        If one id is unknown, nothing changes.
        """
        moment = self._now(now)
        with self._open(writing=True) as space:
            each = [ids] if isinstance(ids, (int, np.integer)) else check_items(ids, "ids", "int")
            known = [self._known(space, id) for id in each]
            space = self._store.restore(space, known)
            used = np.array(sorted(set(known)), dtype=np.int64)
            space.engine.touch(used, moment)
            self._store.changed(space, used)

    # Reading

    def recall(
        self,
        query: str,
        k: int = 10,
        *,
        tags: Iterable[str] | None = None,
        filter: Mapping[str, Any] | None = None,
        status: str | None = None,
        since: Time | None = None,
        until: Time | None = None,
        min_score: float | None = None,
        reinforce: bool | None = None,
        include_archived: bool = False,
        now: Time | None = None,
    ) -> builtins.list[Hit]:
        """The k best memories for a query, best first; fewer if fewer pass the filters.

        Recalling strengthens the hits whose similarity is close to the best one's, and weakens
        the runners-up that resemble those (retrieval-induced forgetting), within the bounds of the
        policy. The records of the hits show the memories as they were ranked, before that.

        The first recall after opening, and after :meth:`compact`, indexes the words of all
        memories of the namespace, while other calls wait: about a second for 50,000.

        Parameters
        ----------
        tags : sequence of str, optional
            Only memories that have all of these.
        filter : dict, optional
            Only memories with an occurrence whose metadata has all of these keys and values.
        status : {"open", "completed", "none"}, optional
            Only open tasks, only completed ones, or only what is not a task.
        since, until : time, optional
            Only memories with an occurrence in ``since <= time < until``.
        min_score : float, optional
            Only hits with at least this score.
        reinforce : bool, optional
            False: look only, change nothing; so by default in a store that is open to be read
            only, where True is a ReadOnlyStore. Else the default is True.
        include_archived : bool
            True: ranks the memories of the archive with the others, as if they had never left.
            They are read from the disk for this call, about a second for 50,000. What the recall
            strengthens comes back from the archive.
        """
        if reinforce is None:
            reinforce = not self.read_only
        elif check_bool(reinforce, "reinforce") and self.read_only:
            raise ReadOnlyStore(
                f"{self!r} is open to be read only: a recall cannot reinforce what it finds; leave "
                "reinforce out, or False"
            )
        question = Question.of(
            query,
            k,
            tags=tags,
            filter=filter,
            status=status,
            since=since,
            until=until,
            min_score=min_score,
            reinforce=reinforce,
            include_archived=include_archived,
            neutral=self._neutral,
            now=self._now(now),
        )
        with self._locked():
            pass  # a closed store says so before the embedder works
        vector = self._embedder.embed_queries([question.text])[0]
        with self._open() as space:
            return answer(self._store, space, question, vector)

    def why_not(
        self,
        query: str,
        id: int,
        k: int = 10,
        *,
        tags: Iterable[str] | None = None,
        filter: Mapping[str, Any] | None = None,
        status: str | None = None,
        since: Time | None = None,
        until: Time | None = None,
        min_score: float | None = None,
        now: Time | None = None,
    ) -> WhyNot:
        """Why a memory is not among the `k` hits of a recall with these arguments.

        Tells its place among all that pass the filters and its terms beside those of the hit at
        place `k`, or which filters it does not pass. All memories are looked at, even in an
        approximate store. Changes nothing.

        Raises
        ------
        MemoryNotFound
            If no memory of this namespace has the id; the message says whether it was forgotten.
        """
        question = Question.of(
            query,
            k,
            tags=tags,
            filter=filter,
            status=status,
            since=since,
            until=until,
            min_score=min_score,
            reinforce=False,
            neutral=self._neutral,
            now=self._now(now),
        )
        with self._open() as space:
            self._known(space, id)
        vector = self._embedder.embed_queries([question.text])[0]
        with self._open() as space:
            return why_not(self._store, space, question, vector, self._known(space, id))

    def get(self, id: int, *, now: Time | None = None) -> Record:
        """A memory as it stands now, in the archive too; MemoryNotFound if this namespace has none
        with this id."""
        moment = self._now(now)
        with self._open() as space:
            return self._record(space, self._known(space, id), moment)

    def restore(self, id: int, *, now: Time | None = None) -> Record:
        """Bring a memory back from the archive; one that is not there stays as it is.

        So does whatever uses it: a recall that strengthens it, and :meth:`reinforce`, :meth:`pin`,
        :meth:`unpin`, :meth:`complete`, :meth:`reconsolidate`, or remembering its text again.
        """
        moment = self._now(now)
        with self._open(writing=True) as space:
            space, known = self._restored(space, id)
            return self._record(space, known, moment)

    def history(self, id: int) -> builtins.list[Version]:
        """The texts of a memory: the one it was remembered with first, the present one last."""
        with self._open() as space:
            return history(self._store, self._known(space, id))

    def list(
        self,
        *,
        limit: int | None = None,
        offset: int = 0,
        tags: Iterable[str] | None = None,
        status: str | None = None,
        order: str = "created",
        include_archived: bool = False,
        now: Time | None = None,
    ) -> builtins.list[Record]:
        """Memories in order. Looking at them changes nothing.

        Parameters
        ----------
        limit, offset : int
            How many, after how many.
        tags : sequence of str, optional
            Only memories that have all of these.
        status : {"open", "completed", "none"}, optional
            Only open tasks, only completed ones, or only what is not a task.
        order : str
            "created" (the oldest first), "vividness", "effective_vividness", "salience",
            "last_access" or "access_count"; with "-" before it the highest first.
        include_archived : bool
            Those in the archive too.
        """
        count = None if limit is None else check_count(limit, "limit")
        skipped = check_count(offset, "offset")
        wanted = () if tags is None else check_tags(tags)
        only = check_status(status)
        order = check_text(order, "order")
        everywhere = check_bool(include_archived, "include_archived")
        moment = self._now(now)
        with self._open() as space:
            if everywhere:
                space = self._store.with_archive(space)
            ids = _reading.ordered(space, wanted, only, order, moment).tolist()
            ids = ids[skipped : None if count is None else skipped + count]
            return _reading.records(self._store, space, ids, moment)


def _persist(database: Database, space: Space, id: int, *, pinned_by: str | None) -> None:
    """Write a memory's strength now, and who pinned it."""
    ids = np.array([id], dtype=np.int64)
    database.update_traces(ids, space.engine.traces(ids))
    database.set_pinned_by(id, pinned_by)
    space.surprise_pins.discard(id)
