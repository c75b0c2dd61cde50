"""What each verb of the ``flashbulb`` command does. Heavy imports wait until they are needed."""

from __future__ import annotations

import os
import sys
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from flashbulb.cli import output
from flashbulb.drawing import console, printable
from flashbulb.errors import FlashbulbError, ReadOnlyStore, StoreLocked

if TYPE_CHECKING:
    from flashbulb import Memory
    from flashbulb.arousal import ArousalDetector

__all__ = [
    "backup",
    "check",
    "complete",
    "demo",
    "explain",
    "export",
    "forget",
    "history",
    "import_",
    "list_memories",
    "namespaces",
    "recall",
    "reconsolidate",
    "remember",
    "repair",
    "replay_file",
    "restore",
    "retention",
    "stats",
    "why_not",
]


@contextmanager
def _memory(
    arguments: Namespace,
    *,
    create: bool = False,
    read_only: bool = False,
    timeout: float | None = None,
) -> Iterator[Memory]:
    """The store. Only what writes creates one: reading from a mistyped path is an error.

    What only reads does not wait for an agent that has the store open.
    """
    from flashbulb import Memory

    path = arguments.store
    if not create and path != ":memory:" and not Path(path).exists():
        raise FlashbulbError(f"there is no store {path}; 'flashbulb remember' creates one")
    detector = None
    if getattr(arguments, "model", None) is not None:
        from flashbulb.arousal import ArousalDetector, ArousalModel

        try:
            detector = ArousalDetector(model=ArousalModel.load(arguments.model))
        except OSError as error:
            raise ValueError(f"cannot read {arguments.model}: {error.strerror}") from error
    if timeout is None:
        timeout = getattr(arguments, "timeout", 5.0)
    opening = partial(
        Memory, path, namespace=arguments.namespace, detector=detector, timeout=timeout
    )
    try:
        memory = opening(read_only=read_only and path != ":memory:")
    except ReadOnlyStore:  # an older one, or nothing yet
        memory = opening()
    with memory:
        yield memory


@contextmanager
def _recalling(arguments: Namespace) -> Iterator[Memory]:
    """The store, for writing if what is found shall be strengthened and nobody else writes."""
    if not arguments.reinforce:
        with _memory(arguments, read_only=True) as memory:
            yield memory
        return
    with ExitStack() as stack:
        try:
            memory = stack.enter_context(_memory(arguments, timeout=0.0))
        except StoreLocked:
            memory = stack.enter_context(_memory(arguments, read_only=True))
            print(
                "flashbulb: the store is open in another process; nothing is strengthened by this",
                file=sys.stderr,
            )
        yield memory


def _text(argument: str) -> str:
    """An argument, or standard input."""
    return sys.stdin.read().rstrip("\r\n") if argument == "-" else argument


def remember(arguments: Namespace) -> int:
    text = _text(arguments.text)
    with _memory(arguments, create=True) as memory:
        record = memory.remember(
            text,
            context=arguments.context,
            tags=arguments.tag,
            metadata=arguments.metadata,
            urgency=arguments.urgency,
            arousal=arguments.arousal,
            now=arguments.now,
        )
    if arguments.json:
        output.print_json(output.record_values(record))
    else:
        output.remembered(console(), record)
    return 0


def recall(arguments: Namespace) -> int:
    with _recalling(arguments) as memory:
        hits = memory.recall(
            arguments.query,
            arguments.k,
            tags=arguments.tag,
            filter=arguments.filter,
            status=arguments.status,
            since=arguments.since,
            until=arguments.until,
            min_score=arguments.min_score,
            reinforce=arguments.reinforce and not memory.read_only,
            include_archived=arguments.archived,
            now=arguments.now,
        )
    if arguments.json:
        output.print_json([output.hit_values(hit) for hit in hits])
    elif not hits:
        console().print("no memory found")
    elif arguments.explain:
        output.explained(console(), hits)
    else:
        output.hits_table(console(), hits)
    return 0


def why_not(arguments: Namespace) -> int:
    from flashbulb.cli import explaining

    with _memory(arguments, read_only=True) as memory:
        why = memory.why_not(
            arguments.query,
            arguments.id,
            arguments.k,
            tags=arguments.tag,
            filter=arguments.filter,
            status=arguments.status,
            since=arguments.since,
            until=arguments.until,
            min_score=arguments.min_score,
            now=arguments.now,
        )
    if arguments.json:
        output.print_json(explaining.why_values(why))
    else:
        explaining.explained_rank(console(), why)
    return 0


def explain(arguments: Namespace) -> int:
    from flashbulb._check import check_text
    from flashbulb.cli import explaining
    from flashbulb.photograph import photograph

    text = check_text(_text(arguments.text), "text")
    created = time.time() if arguments.now is None else arguments.now
    with (
        _memory(arguments, read_only=True) as memory,
        _detector(arguments, memory) as detector,
    ):
        result = detector.detect(text, arguments.context)
        opinion = explaining.model_opinion(detector, text, arguments.context)
        policy = memory.policy
    taken = photograph(text, created=created)
    if arguments.json:
        output.print_json(explaining.arousal_values(result, opinion, taken))
    else:
        explaining.explained_arousal(console(), text, result, opinion, taken, policy)
    return 0


@contextmanager
def _detector(arguments: Namespace, memory: Memory) -> Iterator[ArousalDetector]:
    """The memory's own, and with it the LLM that was named."""
    from flashbulb.arousal import ArousalDetector, LLMJudge

    own = memory.detector
    assert isinstance(own, ArousalDetector)  # no store is opened neutral, or with another, here
    if arguments.llm is None:
        if arguments.llm_url is not None:
            raise ValueError("--llm-url needs --llm: the name of the model there")
        yield own
        return
    try:
        judge = LLMJudge(arguments.llm, base_url=arguments.llm_url)
    except ImportError as error:
        raise ValueError(str(error)) from None
    with closing(judge):
        yield ArousalDetector(model=own.model, llm=judge, policy=memory.policy)


def forget(arguments: Namespace) -> int:
    with _memory(arguments) as memory:
        gone = {id: memory.forget(id) for id in arguments.id}
    if arguments.json:
        output.print_json({"forgotten": [id for id, done in gone.items() if done]})
    for id, done in gone.items():
        if not done:
            print(f"flashbulb: there is no memory {id}", file=sys.stderr)
        elif not arguments.json:
            console().print(f"forgot {id}")
    return 0 if all(gone.values()) else 1


def complete(arguments: Namespace) -> int:
    with _memory(arguments) as memory:
        known = [memory.get(id, now=arguments.now) for id in arguments.id]
        for record in known:  # all are looked at before one is changed
            if record.status == "none":
                raise ValueError(
                    f"memory {record.id} is not a task: it was remembered without --urgency"
                )
        records = [memory.complete(record.id, now=arguments.now) for record in known]
    if arguments.json:
        output.print_json([output.record_values(record) for record in records])
    else:
        for record in records:
            output.completed(console(), record)
    return 0


def reconsolidate(arguments: Namespace) -> int:
    context = sys.stdin.read().rstrip("\r\n") if arguments.context == "-" else arguments.context
    with _memory(arguments) as memory:
        record = memory.reconsolidate(arguments.id, context, now=arguments.now)
    if arguments.json:
        output.print_json(output.record_values(record))
    else:
        output.reconsolidated(console(), record)
    return 0


def history(arguments: Namespace) -> int:
    with _memory(arguments, read_only=True) as memory:
        versions = memory.history(arguments.id)
    if arguments.json:
        output.print_json([output.version_values(version) for version in versions])
    else:
        output.versions_table(console(), versions)
    return 0


def list_memories(arguments: Namespace) -> int:
    order = arguments.order
    if order.removeprefix("-") == "vividness":  # as the table shows it: with the terms of tasks
        order = order.replace("vividness", "effective_vividness")
    with _memory(arguments, read_only=True) as memory:
        records = memory.list(
            limit=arguments.limit,
            offset=arguments.offset,
            tags=arguments.tag,
            status=arguments.status,
            order=order,
            include_archived=arguments.archived,
            now=arguments.now,
        )
        total = len(memory) + (memory.stats()["archived"] if arguments.archived else 0)
    if arguments.json:
        output.print_json([output.record_values(record) for record in records])
    else:
        output.records_table(console(), records, total)
    return 0


def stats(arguments: Namespace) -> int:
    with _memory(arguments, read_only=True) as memory:
        counts = memory.stats()
    if arguments.json:
        output.print_json(dict(counts))
    else:
        output.stats_table(console(), counts)
    return 0


def namespaces(arguments: Namespace) -> int:
    with _memory(arguments, read_only=True) as memory:
        counts = memory.namespaces()
    if arguments.json:
        known = [(c.name, c.memories, c.archived) for c in counts]
        names = ("name", "memories", "archived")
        output.print_json([dict(zip(names, values, strict=True)) for values in known])
    else:
        output.namespaces_table(console(), counts)
    return 0


def retention(arguments: Namespace) -> int:
    from flashbulb import Retention

    policy = Retention(
        idle_days=arguments.idle_days,
        vividness=arguments.vividness,
        size=arguments.size,
        keep_floor=arguments.keep_floor,
    )
    dry = arguments.dry_run
    with _memory(arguments, read_only=dry) as memory:
        total = len(memory)
        records = memory.apply_retention(policy, dry_run=dry, now=arguments.now)
    if arguments.json:
        output.print_json([output.record_values(record) for record in records])
    else:
        output.records_table(console(), records, total)
        console().print("nothing was moved: a dry run" if dry else "moved to the archive")
    return 0


def restore(arguments: Namespace) -> int:
    with _memory(arguments) as memory:
        for id in arguments.id:  # all are looked at before one is changed
            memory.get(id)
        records = [memory.restore(id) for id in arguments.id]
    if arguments.json:
        output.print_json([output.record_values(record) for record in records])
    else:
        for record in records:
            console().print(f"restored {record.id}")
    return 0


def export(arguments: Namespace) -> int:
    with _memory(arguments, read_only=True) as memory:
        count = memory.export(arguments.file)
    return _transferred(arguments, "exported", count, "to")


def import_(arguments: Namespace) -> int:
    with _memory(arguments, create=True) as memory:
        count = memory.import_(arguments.file, new_ids=arguments.new_ids)
    return _transferred(arguments, "imported", count, "from")


def _transferred(arguments: Namespace, done: str, count: int, way: str) -> int:
    if arguments.json:
        output.print_json({"file": arguments.file, done: count})
    else:
        text = f"{done} {count} memories {way} {printable(arguments.file)}"
        console().print(text, markup=False, soft_wrap=True)
    return 0


def backup(arguments: Namespace) -> int:
    from flashbulb.storage.backup import copy_store

    source, target = (os.path.realpath(path) for path in (arguments.store, arguments.copy))
    copy_store(source, target, overwrite=arguments.overwrite, timeout=arguments.timeout)
    size = os.path.getsize(target)
    if arguments.json:
        output.print_json({"copy": arguments.copy, "bytes": size})
    else:
        console().print(
            f"copied {size / 1e6:.1f} MB to {printable(arguments.copy)}",
            markup=False,
            soft_wrap=True,
        )
    return 0


def check(arguments: Namespace) -> int:
    from flashbulb import check_store

    found = check_store(arguments.store, timeout=arguments.timeout)
    if arguments.json:
        output.print_json([finding._asdict() for finding in found])
    elif not found:
        console().print(f"{printable(arguments.store)} is sound", markup=False, soft_wrap=True)
    else:
        output.findings(console(), found)
    return 1 if found else 0


def repair(arguments: Namespace) -> int:
    from flashbulb import repair_store

    done = repair_store(arguments.store, backup=arguments.backup, timeout=arguments.timeout)
    if arguments.json:
        output.print_json(
            {
                "backup": done.backup,
                "mended": [finding._asdict() for finding in done.mended],
                "lost": [finding._asdict() for finding in done.lost],
            }
        )
    else:
        output.repaired(console(), done)
    return 1 if done.lost else 0


def replay_file(arguments: Namespace) -> int:
    from flashbulb.replay import Columns, parse_time, read_events, replay

    columns = Columns(
        text=arguments.text_column,
        time=arguments.time_column,
        tags=arguments.tags_column,
        urgency=arguments.urgency_column,
        key=arguments.key_column,
        metadata=tuple(arguments.metadata_column),
    )
    until = arguments.until
    try:
        events = read_events(
            arguments.file,
            columns,
            delimiter=arguments.delimiter,
            tags_separator=arguments.tags_separator,
            assume_utc=arguments.assume_utc,
            span_days=arguments.span_days,
            until=None if until is None else parse_time(until, assume_utc=arguments.assume_utc),
        )
    except OSError as error:
        raise ValueError(f"cannot read {arguments.file}: {error.strerror}") from error
    with (
        _memory(arguments, create=True) as memory,
        output.progress_bar("replaying", len(events), quiet=arguments.quiet) as advance,
    ):
        summary = replay(memory, events, progress=advance)
    if arguments.json:
        output.print_json(output.summary_values(summary))
    else:
        output.replayed(console(), summary)
    return 0


def demo(arguments: Namespace) -> int:
    from flashbulb import Memory
    from flashbulb.demo import report, run_demo

    path = arguments.store
    if path != ":memory:" and Path(path).exists():
        raise ValueError(f"{path} is already there; the demo wants to make a new store")
    with Memory(path) as memory:
        found = run_demo(memory)
    if arguments.json:
        output.print_json(report.to_json(found, top=arguments.top))
    elif arguments.check:
        report.show_check(console(), found)
    else:
        report.show_demo(console(), found, top=arguments.top, kept_in=path)
    return 1 if arguments.check and not found.passed else 0
