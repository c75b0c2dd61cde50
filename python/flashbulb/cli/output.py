"""What the ``flashbulb`` command prints: tables for people, JSON for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from flashbulb.drawing import console, printable, stacked_bar

if TYPE_CHECKING:
    from flashbulb.checking import Finding
    from flashbulb.photograph import Extracted
    from flashbulb.records import Hit, NamespaceCount, Record, Stats, Version
    from flashbulb.repairing import Repair
    from flashbulb.replay import Summary

__all__ = [
    "columns",
    "completed",
    "explained",
    "findings",
    "hit_values",
    "hits_table",
    "namespaces_table",
    "photograph_lines",
    "print_json",
    "progress_bar",
    "reconsolidated",
    "record_values",
    "records_table",
    "remembered",
    "repaired",
    "replayed",
    "stats_table",
    "summary_values",
    "version_values",
    "versions_table",
]

_PLAIN: dict[str, Any] = {"markup": False, "soft_wrap": True, "highlight": False}


def print_json(value: object) -> None:
    """One JSON document, in ASCII where the output can hold no more."""
    encoding = (getattr(sys.stdout, "encoding", None) or "ascii").lower()
    print(json.dumps(value, indent=2, ensure_ascii=not encoding.startswith("utf")))


def record_values(record: Record) -> dict[str, Any]:
    """All fields; times are epoch seconds."""
    return asdict(record)


def hit_values(hit: Hit) -> dict[str, Any]:
    """The terms of the score, and the record."""
    return {
        "id": hit.id,
        "text": hit.text,
        "score": hit.score,
        "similarity": hit.similarity,
        "cosine": hit.cosine,
        "lexical": hit.lexical,
        "vividness_bonus": hit.vividness_bonus,
        "recency_bonus": hit.recency_bonus,
        "record": record_values(hit.record),
    }


def summary_values(summary: Summary) -> dict[str, Any]:
    return {**asdict(summary), "events_per_second": summary.events_per_second}


def moment(seconds: float) -> str:
    """A time as it is shown: UTC, to the minute."""
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%d %H:%MZ")


def marks(record: Record) -> Text:
    """What is special about a memory."""
    words = []
    if record.flashbulb:
        words.append(Text("flashbulb", style="yellow"))
    if record.pinned:
        words.append(Text("pinned", style="magenta"))
    if record.status == "open":
        words.append(Text("open", style="red"))
    elif record.status == "completed":
        words.append(Text("done", style="green"))
    return Text(", ").join(words)


def described(record: Record) -> Text:
    """Marks, text, tags and repeats of a memory in one cell."""
    cell = Text()
    special = marks(record)
    if special:
        cell.append_text(special).append(": ")
    cell.append(printable(record.text))
    for tag in record.tags:
        cell.append(f" #{printable(tag)}", "dim")
    if len(record.occurrences) > 1:
        cell.append(f" ({len(record.occurrences)} times)", "dim")
    return cell


def columns(*names: tuple[str, str]) -> Table:
    """Columns by name and alignment; all but the last one, the text, stay on one line."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name, side in names:
        table.add_column(
            name, justify="right" if side == "right" else "left", no_wrap=name != names[-1][0]
        )
    return table


def remembered(out: Console, record: Record) -> None:
    times = len(record.occurrences)
    again = f", now {times} times" if times > 1 else ""
    line = Text(f"remembered {record.id}{again}: salience {record.salience:.2f}")
    line.append(f" ({record.arousal_source}), floor {record.floor:.1f}")
    special = marks(record)
    if special:
        line.append(", ").append_text(special)
    if record.near_duplicate is not None:
        near = record.near_duplicate
        line.append(f"; near {near.id} ({near.cosine:.2f}): {printable(near.text)}")
    out.print(line)
    if record.flashbulb and record.photograph:
        out.print(photograph_lines(record.photograph))


def photograph_lines(photograph: Mapping[str, Extracted]) -> Table:
    """Who, what, when and where, and from whom each is."""
    table = Table(box=None, show_header=False, pad_edge=False)
    for name, field in photograph.items():
        precision = f", {field.precision}" if field.precision else ""
        source = Text(f"({field.source}{precision})", style="dim")
        table.add_row(Text(name, style="dim"), Text(printable(field.value)), source)
    return table


def completed(out: Console, record: Record) -> None:
    out.print(
        f"completed {record.id}: vividness {record.effective_vividness:.2f}, "
        f"floor {record.floor:.1f}"
    )


def reconsolidated(out: Console, record: Record) -> None:
    line = Text(f"memory {record.id}, vividness {record.vividness:.2f}: ")
    out.print(line.append(printable(record.text)))


def version_values(version: Version) -> dict[str, Any]:
    return asdict(version)


def versions_table(out: Console, versions: Sequence[Version]) -> None:
    table = columns(("since", "left"), ("", "left"), ("text", "left"))
    for version in versions:
        table.add_row(moment(version.time), version.reason, printable(version.text))
    out.print(table)


def hits_table(out: Console, hits: Sequence[Hit]) -> None:
    names = ("#", "id", "score", "similarity", "vivid", "recent")
    table = columns(*((name, "right") for name in names), ("text", "left"))
    for rank, hit in enumerate(hits, 1):
        similarity = Text(f"{hit.similarity:.3f}\n")
        similarity.append(f"cosine {hit.cosine:.2f}\nwords {hit.lexical:.2f}", "dim")
        table.add_row(
            str(rank),
            str(hit.id),
            Text(f"{hit.score:.3f}", style="bold"),
            similarity,
            f"+{hit.vividness_bonus:.3f}",
            f"+{hit.recency_bonus:.3f}",
            described(hit.record),
        )
    out.print(table)


def explained(out: Console, hits: Sequence[Hit]) -> None:
    for rank, hit in enumerate(hits, 1):
        if rank > 1:
            out.print()
        out.print(Text(f"{rank}. [{hit.id}] {printable(hit.text)}", style="bold"))
        out.print(Text(hit.explain()))


def records_table(out: Console, records: Sequence[Record], total: int) -> None:
    table = columns(
        ("id", "right"),
        ("created", "left"),
        ("vividness", "left"),
        ("salience", "right"),
        ("text", "left"),
    )
    for record in records:
        vivid = record.effective_vividness
        bar = stacked_bar([vivid], 1.0, 5, ascii_only=out.options.ascii_only)
        table.add_row(
            str(record.id),
            moment(record.created),
            Text(f"{vivid:.2f} ").append_text(bar),
            f"{record.salience:.2f}",
            described(record),
        )
    out.print(table)
    out.print(f"{len(records)} of {total} memories")


def namespaces_table(out: Console, counts: Sequence[NamespaceCount]) -> None:
    table = columns(("memories", "right"), ("archived", "right"), ("name", "left"))
    for count in counts:
        table.add_row(str(count.memories), str(count.archived), Text(printable(count.name)))
    out.print(table)


def stats_table(out: Console, stats: Stats) -> None:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column()
    table.add_column()
    tags = sorted(stats["tags"].items(), key=lambda item: (-item[1], item[0]))
    more = f", and {len(tags) - 10} more" if len(tags) > 10 else ""
    shown = ", ".join(f"{printable(tag)} {count}" for tag, count in tags[:10]) + more
    repeats = stats["occurrences"] - stats["memories"]
    embedder: Mapping[str, Any] = stats["embedder"]
    rows = {
        "namespace": f"{printable(stats['namespace'])} (of {stats['namespaces']} in the store)",
        "memories": f"{stats['memories']}, and {repeats} repeats of them; "
        f"{stats['archived']} more in the archive",
        "tasks": f"{stats['open_tasks']} open, {stats['completed_tasks']} done",
        "flashbulbs": str(stats["flashbulbs"]),
        "pinned": f"{stats['pinned']}, {stats['pinned_by_surprise']} of them by surprise; "
        f"{stats['surprise_pins_refused']} refused at the limit",
        "tags": shown or "none",
        "size": f"{stats['store_bytes'] / 1e6:.2f} MB",
        "embedder": f"{printable(embedder['name'])}, {embedder['dim']} dimensions",
    }
    for name, value in rows.items():
        table.add_row(Text(name, style="dim"), Text(value))
    out.print(table)


def replayed(out: Console, summary: Summary) -> None:
    refused = f" ({summary.pins_refused} more at the limit)" if summary.pins_refused else ""
    out.print(
        f"{summary.events} events: {summary.memories} memories and {summary.repeats} repeats; "
        f"{summary.flashbulbs} flashbulbs, {summary.pinned} pinned{refused}; "
        f"{summary.seconds:.1f} s, {summary.events_per_second:.0f} events per second"
    )


def findings(out: Console, found: Iterable[Finding]) -> None:
    """What is wrong with a store, a line each."""
    for file, place, problem in found:
        out.print(f"{printable(file)}: {printable(place)}: {printable(problem)}", **_PLAIN)


def repaired(out: Console, done: Repair) -> None:
    """What a repair did."""
    if done.backup is None and not done.mended and not done.lost:
        out.print("nothing had to be repaired")
        return
    if done.backup is not None:
        out.print(f"the files as they were: {printable(done.backup)}", **_PLAIN)
    for title, some in (("mended", done.mended), ("lost", done.lost)):
        if some:
            out.print(f"{title}:")
            findings(out, some)


@contextmanager
def progress_bar(doing: str, total: int, *, quiet: bool) -> Iterator[Callable[[int], None]]:
    """A bar with rate and time left on standard error; nothing if that is not a terminal."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        Task,
        TextColumn,
        TimeRemainingColumn,
    )

    class Rate(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(f"{task.speed:.0f}/s" if task.speed else "")

    out = console(stderr=True)
    with Progress(
        TextColumn(doing),
        BarColumn(),
        MofNCompleteColumn(),
        Rate(),
        TimeRemainingColumn(),
        console=out,
        transient=True,
        disable=quiet or not out.is_terminal,
    ) as progress:
        task = progress.add_task(doing, total=total)
        yield lambda count: progress.advance(task, count)
