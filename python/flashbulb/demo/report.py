"""The demo as a terminal shows it, and as JSON."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from datetime import datetime, timezone
from itertools import zip_longest
from typing import Any

from rich import box
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from flashbulb.demo.run import Answer, Demo, Ranked, Watched
from flashbulb.drawing import Curve, curve_lines, printable, shortened, stacked_bar
from flashbulb.records import Hit, Record

__all__ = ["score_sum", "score_terms", "show_check", "show_demo", "to_json"]


def show_demo(console: Console, demo: Demo, *, top: int, kept_in: str = ":memory:") -> None:
    """Both rankings for each question, then the curves."""
    ascii_only = console.options.ascii_only
    stats = demo.stats
    console.print(
        f"{demo.scenario.description} {stats['memories']} messages, {stats['flashbulbs']} of them "
        f"flashbulbs; {stats['completed_tasks']} tasks done, {stats['open_tasks']} still open. "
        f"The questions are asked on day {demo.scenario.days:g}."
    )
    console.print()
    console.print(_legend(ascii_only))
    for number, answer in enumerate(demo.answers, 1):
        console.print()
        console.print(
            Text.assemble(
                (f"{number}. {answer.question.text}", "bold"), (f"  {answer.question.kind}", "dim")
            )
        )
        console.print(_rankings(answer, top, stats["policy"]["lexical_weight"], console))
    console.print()
    console.print(Text("Effective vividness of four of these memories", style="bold"))
    console.print(_curves(demo, console.width, ascii_only))
    console.print()
    console.print(_verdict(demo))
    if kept_in != ":memory:":
        now = datetime.fromtimestamp(demo.scenario.end, timezone.utc).isoformat()
        console.print(f'Ask on: flashbulb recall "..." --now {now} --store {kept_in}')


def _legend(ascii_only: bool) -> Text:
    legend = Text("score = ")
    names = ("meaning", "shared words", "vividness", "recency")
    for i, name in enumerate(names):
        one = [float(i == j) for j in range(len(names))]
        legend.append_text(stacked_bar(one, 1.0, 2, ascii_only=ascii_only))
        legend.append(f" {name} + " if i + 1 < len(names) else f" {name}   ")
    legend.append(_tick(ascii_only), "bold green")
    legend.append(" right")
    return legend


def _tick(ascii_only: bool) -> str:
    return "*" if ascii_only else "✔"


def score_terms(hit: Hit, lexical_weight: float) -> tuple[float, float, float, float]:
    """What meaning, words, vividness and recency add to the score."""
    words = lexical_weight * hit.lexical
    return hit.similarity - words, words, hit.vividness_bonus, hit.recency_bonus


def _rankings(answer: Answer, top: int, lexical_weight: float, console: Console) -> Table:
    ascii_only = console.options.ascii_only
    rest = max(console.width - 21, 30)  # without frame and ranks
    right_room = max(rest // 2, min(33, rest - 20))  # 33: a score and its terms on one line
    left_room = rest - right_room
    table = Table(box=box.ROUNDED)
    table.add_column("#", justify="right", min_width=4)
    table.add_column("plain similarity", width=left_room)
    table.add_column("#", justify="right", min_width=4)
    table.add_column("Flashbulb", width=right_room)
    scale = answer.flashbulb[0].hit.score
    left = [
        (_rank(ranked, ascii_only), _text(ranked, left_room, f"cosine {ranked.hit.cosine:.2f}"))
        for ranked in _shown(answer.plain, answer.best_plain, top)
    ]
    right = []
    for ranked in _shown(answer.flashbulb, answer.best, top):
        terms = score_terms(ranked.hit, lexical_weight)
        bar = stacked_bar(terms, scale, right_room, ascii_only=ascii_only)
        figures = score_sum(ranked.hit.score, terms)
        right.append((_rank(ranked, ascii_only), _text(ranked, right_room, figures, bar)))
    for plain, ours in zip_longest(left, right, fillvalue=("", "")):
        table.add_row(*plain, *ours)
    return table


def _shown(ranking: list[Ranked], best: Ranked, top: int) -> list[Ranked]:
    return ranking[:top] if best.rank <= top else [*ranking[:top], best]


def _rank(ranked: Ranked, ascii_only: bool) -> Text:
    if not ranked.expected:
        return Text(str(ranked.rank))
    return Text(f"{_tick(ascii_only)} {ranked.rank}", style="bold green")


def _state(record: Record) -> str:
    """What an answer is to be read with: whether it is a flashbulb, and still open."""
    marks = ["!"] if record.flashbulb else []
    if record.status != "none":
        marks.append("open" if record.status == "open" else "done")
    return f"[{' '.join(marks)}] " if marks else ""


def score_sum(total: float, terms: Sequence[float]) -> str:
    """The terms rounded so that what is printed adds up."""
    rounded = [round(term, 2) for term in terms]
    largest = max(range(len(terms)), key=lambda i: terms[i])
    rounded[largest] += round(total, 2) - sum(rounded)
    return f"{total:.2f} = " + " + ".join(f"{term:.2f}" for term in rounded)


def _text(ranked: Ranked, room: int, figures: str, bar: Text | None = None) -> Group:
    text = _state(ranked.hit.record) + printable(ranked.hit.text)
    lines = textwrap.wrap(text, room, max_lines=3, placeholder="...")
    return Group(
        Text(figures, style="dim"),
        *([] if bar is None else [bar]),
        Text("\n".join(lines), style="green" if ranked.expected else ""),
    )


def _curves(demo: Demo, width: int, ascii_only: bool) -> Table:
    columns = max(min(width // 40, len(demo.watched)), 1)
    room = min(width // columns - 2, 60)
    grid = Table.grid(padding=(0, 1))
    for _ in range(columns):
        grid.add_column(width=room)
    cells = [_curve(each, demo, room, ascii_only) for each in demo.watched]
    for i in range(0, len(cells), columns):
        grid.add_row(*cells[i : i + columns])
    return grid


def _curve(watched: Watched, demo: Demo, room: int, ascii_only: bool) -> Group:
    recalled, done = ("^", "x") if ascii_only else ("▲", "✔")
    marks = [(day, recalled) for day in watched.recalled]
    marks += [(day, done) for day in watched.completed]
    lines = curve_lines(
        Curve(watched.days, watched.vividness, watched.floors, marks),
        span=demo.scenario.days,
        width=room,
        height=9,
        ascii_only=ascii_only,
    )
    legend = [f"day {watched.days[-1]:g}: {watched.vividness[-1]:.2f}"]
    if watched.floors[-1] > 0:
        legend.append(f"{'...' if ascii_only else '⠒⠒'} floor {watched.floors[-1]:.1f}")
    if watched.recalled:
        legend.append(f"{recalled} recalled")
    if watched.completed:
        legend.append(f"{done} done")
    return Group(
        Text(),
        Text(watched.title, style="bold"),
        Text(f'"{shortened(watched.text, room - 2)}"', style="dim"),
        *(Text(line) for line in lines),
        Text(", ".join(legend)),
    )


def _verdict(demo: Demo) -> Text:
    right = sum(answer.passed for answer in demo.answers)
    plain = sum(answer.best_plain.rank == 1 for answer in demo.answers)
    return Text(
        f"A right answer comes first for {right} of {len(demo.answers)} questions; "
        f"by plain similarity for {plain}.   {demo.seconds:.1f} s",
        style="bold",
    )


def show_check(console: Console, demo: Demo) -> None:
    """One line for each question: where the best right answer stands."""
    table = Table(box=box.SIMPLE_HEAD)
    widest = max(len(answer.flashbulb[0].key) for answer in demo.answers)
    table.add_column("", width=4)
    table.add_column("question")
    table.add_column("first", width=widest)
    table.add_column("rank", justify="right", width=4)
    table.add_column("plain", justify="right", width=5)
    table.add_column("margin", justify="right", width=6)
    for answer in demo.answers:
        mark = "ok" if answer.passed else "FAIL" if answer.promised else "miss"
        style = {"ok": "green", "FAIL": "bold red", "miss": "yellow"}[mark]
        table.add_row(
            Text(mark, style=style),
            Text(answer.question.text),
            Text(answer.flashbulb[0].key),
            str(answer.best.rank),
            str(answer.best_plain.rank),
            Text(f"{answer.margin:+.3f}", style=style),
        )
    console.print(table)
    console.print(
        "first: key of the memory that came first; rank and plain: where the best right answer "
        "stands, by score and by cosine; margin: its score less that of the best other memory; "
        "miss: a right answer is not first, and the README does not promise it"
    )
    console.print(_verdict(demo))


def to_json(demo: Demo, *, top: int) -> dict[str, Any]:
    """Everything that is shown, as plain values."""
    return {
        "passed": demo.passed,
        "seconds": demo.seconds,
        "questions": [
            {
                "text": answer.question.text,
                "kind": answer.question.kind,
                "expect": list(answer.question.expect),
                "passed": answer.passed,
                "promised": answer.promised,
                "rank": answer.best.rank,
                "rank_plain": answer.best_plain.rank,
                "margin": answer.margin,
                "plain": [
                    {"key": ranked.key, "expected": ranked.expected, "cosine": ranked.hit.cosine}
                    for ranked in answer.plain[:top]
                ],
                "flashbulb": [
                    {
                        "key": ranked.key,
                        "expected": ranked.expected,
                        "score": ranked.hit.score,
                        "similarity": ranked.hit.similarity,
                        "cosine": ranked.hit.cosine,
                        "lexical": ranked.hit.lexical,
                        "vividness_bonus": ranked.hit.vividness_bonus,
                        "recency_bonus": ranked.hit.recency_bonus,
                    }
                    for ranked in answer.flashbulb[:top]
                ],
            }
            for answer in demo.answers
        ],
        "curves": [
            {
                "key": each.key,
                "title": each.title,
                "days": each.days,
                "vividness": each.vividness,
                "floors": each.floors,
                "recalled": each.recalled,
                "completed": each.completed,
            }
            for each in demo.watched
        ],
    }
