"""Many agents on one store: how long remembering and recalling take, beside other stores.

    python benchmarks/load.py --namespaces 400 --json report.json
    python benchmarks/load.py --namespaces 20 --hot 10 --rows 100 --operations 40   # a look

Each namespace is filled with the same memories in each store. Then hot namespaces are drawn at
random, and in each a memory is remembered and three questions are asked, which reinforce what they
find and weaken what resembles it (retrieval-induced forgetting); contenders take turns, so that
what disturbs one disturbs all. sqlite-vec, chromadb and lancedb take part if they are installed
(dependency group `bench`), each with the nearest that it has, see comparison/agents.py; Flashbulb
alone also judges the text, looks for near duplicates and surprise, ranks by strength and words, and
returns explained records. Embeddings are given to all.

Before the mix each store is asked for the nearest memories by similarity alone, and what it says is
held against NumPy in float64: exit code 1 if one that searches exactly is wrong.

Informational, not a gate. To be reached: 5 times the recalls per second of the best of the others,
and not fewer durable inserts.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

import numpy as np
from rich.console import Console
from rich.table import Table

from comparison.agents import Agent, Durability, Flashbulb, Item, K, World, available

_START = 1_700_000_000.0
_CHECKED = 5  # questions, in each of so many namespaces
_EXACT = {"Flashbulb", "sqlite-vec", "lancedb"}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--namespaces", type=int, default=10_000, help="default 10,000")
    parser.add_argument("--rows", type=int, default=1000, help="in each (default 1,000)")
    parser.add_argument("--hot", type=int, default=200, help="namespaces in use (default 200)")
    parser.add_argument("--dim", type=int, default=384, help="default 384")
    parser.add_argument("--operations", type=int, default=2000, help="of the mix (default 2,000)")
    parser.add_argument(
        "--durability", nargs="+", choices=get_args(Durability), default=get_args(Durability)
    )
    parser.add_argument("--only", nargs="+", help="these contenders")
    parser.add_argument("--folder", type=Path, help="where the stores are made (a temporary one)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="all figures as JSON")
    return parser.parse_args()


@dataclass
class Figures:
    """What one contender took, in seconds."""

    fill_rows_per_second: float
    wrong: int
    first: list[float] = field(default_factory=list)
    """Of the first recall in a namespace."""
    remember: list[float] = field(default_factory=list)
    recall: list[float] = field(default_factory=list)

    def summary(self) -> dict[str, Any]:
        result: dict[str, Any] = {
            "fill_rows_per_second": round(self.fill_rows_per_second),
            "wrong": int(self.wrong),
        }
        for name in ("first", "remember", "recall"):
            times = np.array(getattr(self, name))
            result[name] = {
                "p50_ms": 1e3 * float(np.median(times)),
                "p99_ms": 1e3 * float(np.quantile(times, 0.99)),
                "per_second": len(times) / float(times.sum()),
            }
        return result


def timed(times: list[float], call: Callable[[], Any]) -> None:
    start = time.perf_counter()
    call()
    times.append(time.perf_counter() - start)


def check(agents: list[Agent], world: World, numbers: list[int]) -> int:
    """How many answers are not those of float64; rounding may exchange equal ones."""
    wrong = 0
    rng = np.random.default_rng(1)
    for agent, number in zip(agents[:_CHECKED], numbers, strict=False):
        items = world.items(number)
        rows = np.array([item.vector for item in items], np.float64)
        for item in items[:_CHECKED]:
            vector = world.near(item, rng)
            cosines = rows @ vector.astype(np.float64)
            kth = np.sort(cosines)[-K:][0]
            found = [id - items[0].id for id in agent.nearest(vector, K)]
            wrong += len(set(found)) != K or cosines[found].min() < kth - 1e-6
    return wrong


def run(options: argparse.Namespace, durability: Durability, folder: Path) -> dict[str, Figures]:
    """Fill all stores, then ask and tell them in turns."""
    world = World(options.rows, options.dim, _START)
    kinds = [kind for kind in (Flashbulb, *available()) if _wanted(kind.name, options.only)]
    stores, figures = {}, {}
    for kind in kinds:
        place = folder / durability / kind.name
        place.mkdir(parents=True)
        stores[kind.name] = kind(place, options.dim, durability)
        seconds = 0.0
        for number in range(options.namespaces):
            items = world.items(number)
            start = time.perf_counter()
            stores[kind.name].fill(number, items)
            seconds += time.perf_counter() - start
        stores[kind.name].close()
        stores[kind.name] = kind(place, options.dim, durability)
        figures[kind.name] = Figures(options.namespaces * options.rows / seconds, 0)
    rng = np.random.default_rng(7)
    hot = rng.choice(options.namespaces, options.hot, replace=False).tolist()
    agents = {name: [store.agent(number) for number in hot] for name, store in stores.items()}
    for name in stores:
        figures[name].wrong = check(agents[name], world, hot)
    known = {place: world.items(number) for place, number in enumerate(hot)}
    next_id = options.namespaces * options.rows + 1
    for place in range(options.hot):  # the first questions load what is asked
        vector = world.near(known[place][0], rng)
        for name in _turns(list(stores), place):
            agent, text = agents[name][place], known[place][0].text
            timed(figures[name].first, lambda a=agent, t=text, v=vector: a.recall(t, v))
    for step in range(options.operations // 4):
        place = int(rng.integers(options.hot))
        like = known[place][int(rng.integers(options.rows))]
        new = Item(next_id, f"memory {next_id}: {like.text}", world.near(like, rng), _now(next_id))
        next_id += 1
        questions = []
        for _ in range(3):
            about = known[place][int(rng.integers(options.rows))]
            words = about.text.split()[2:6]
            questions.append((" ".join(words), world.near(about, rng)))
        for name in _turns(list(stores), step):
            agent = agents[name][place]
            timed(figures[name].remember, lambda a=agent, i=new: a.remember(i))
            for text, vector in questions:
                timed(figures[name].recall, lambda a=agent, t=text, v=vector: a.recall(t, v))
    for store in stores.values():
        store.close()
    shutil.rmtree(folder / durability)
    return figures


def _wanted(name: str, only: list[str] | None) -> bool:
    return only is None or name in only


def _turns(names: list[str], step: int) -> list[str]:
    """Another one begins each time."""
    first = step % len(names)
    return names[first:] + names[:first]


def _now(number: int) -> float:
    return _START + number


def show(console: Console, durability: str, found: dict[str, dict[str, Any]]) -> None:
    table = Table(title=f"durability {durability}")
    for title in ("", "remember p50", "p99", "per s", "recall p50", "p99", "per s", "first recall",
                  "filled per s", "wrong"):  # fmt: skip
        table.add_column(title, justify="left" if not title else "right")
    for name, line in found.items():
        cells = [name]
        for part in ("remember", "recall"):
            cells += [f"{line[part]['p50_ms']:.2f} ms", f"{line[part]['p99_ms']:.2f} ms"]
            cells.append(f"{line[part]['per_second']:,.0f}")
        cells += [f"{line['first']['p50_ms']:.1f} ms", f"{line['fill_rows_per_second']:,}"]
        table.add_row(*cells, str(line["wrong"]))
    console.print(table)
    others = [line for name, line in found.items() if name != "Flashbulb"]
    if "Flashbulb" in found and others:
        own = found["Flashbulb"]
        for part in ("recall", "remember"):
            by_mean = own[part]["per_second"] / max(o[part]["per_second"] for o in others)
            by_median = min(o[part]["p50_ms"] for o in others) / own[part]["p50_ms"]
            console.print(f"{part}: {by_mean:.1f} times the best of the others, "
                          f"{by_median:.1f} by medians")  # fmt: skip


def main() -> int:
    options = arguments()
    console = Console(width=140)
    report: dict[str, Any] = {
        name: getattr(options, name) for name in ("namespaces", "rows", "hot", "dim", "operations")
    }
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for durability in options.durability:
            figures = run(options, durability, Path(folder))
            report[durability] = {name: f.summary() for name, f in figures.items()}
            show(console, durability, report[durability])
            if options.json:
                options.json.write_text(json.dumps(report, indent=1))
    return int(
        any(
            report[durability][name]["wrong"]
            for durability in options.durability
            for name in _EXACT & report[durability].keys()
        )
    )


if __name__ == "__main__":
    raise SystemExit(main())
