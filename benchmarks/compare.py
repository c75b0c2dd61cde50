"""Flashbulb beside its peers, in one run: times, ratios, recall, and whether the answers agree.

    python benchmarks/compare.py --row exact-100k
    python benchmarks/compare.py --row all --cache /tmp/flashbulb-cache --json report.json

Informational, not a gate. Contenders take turns, so that what disturbs one disturbs all; a figure
is a median, a ratio the median over the rounds, with quartiles. Every recall is against the exact
fused top 10, computed in float64. One thread for all, unless --threads says otherwise; the
variables OPENBLAS_CORETYPE and OPENBLAS_L2_SIZE, which slow NumPy down where they do not fit, are
unset; --blas-core sets the first where the choice of the library is the slow one.

Rows (and what is to be reached):

    exact-1m, exact-100k, exact-10k   exact, one query: 6, 5, 3 times faster than faiss.IndexFlatIP
    small-1k                          the same from Python: not slower than index.search
    batch-100k, batch-1m              256 queries: 5 times faster (AMX; 2.5 VNNI) than tuned FAISS
    approximate                       5 times faster than our own exact search, recall >= 0.99
    welford                           15 times faster than NumPy one by one, <= 1.5 of the limit
    decay, bonus                      3 times faster than in-place NumPy, <= 2 of the limit
    rif                               5 times faster than NumPy's X @ A.T and mask
    threads                           2 threads: 1.6 times faster than one

The "real" data are texts of the folder that FLASHBULB_DATA names, their sentences, and windows of
words of them, under Flashbulb's own embedder (256 dimensions). Windows overlap: it is a dense set.
Questions and held-out sentences ask. usearch and hnswlib take part if they are installed.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

_WIDTH = 140
_MARK = "FLASHBULB_COMPARE_THREADS"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--row", nargs="+", default=["exact-100k"], metavar="ROW")
    parser.add_argument("--data", nargs="+", help="clustered, spectrum, isotropic, real")
    parser.add_argument("--rows", type=int, help="another number of rows than the row's own")
    parser.add_argument("--dim", type=int, default=384, help="of made data (default 384)")
    parser.add_argument(
        "--vivid", nargs="+", type=float, default=[0.02], help="share of flashbulbs (default 0.02)"
    )
    parser.add_argument("--published", action="store_true", help="Policy.published(): no ramps")
    parser.add_argument(
        "--path", default="auto", help="Engine's path: auto, fp32, int8, int4 (default auto)"
    )
    parser.add_argument("--storage", default="fp32", help="Engine's storage (default fp32)")
    parser.add_argument(
        "--blas-core",
        metavar="NAME",
        help="OPENBLAS_CORETYPE of FAISS and NumPy, where their own choice is slow: SkylakeX, ...",
    )
    parser.add_argument("--threads", type=int, default=1, help="of everybody (default 1)")
    parser.add_argument(
        "--peers", nargs="*", help="of row approximate: ivf sq8 pq hnsw usearch hnswlib"
    )
    parser.add_argument("--seconds", type=float, default=5.0, help="for each contender (default 5)")
    parser.add_argument("--queries", type=int, default=32, help="single queries that take turns")
    parser.add_argument("--cache", type=Path, help="folder that keeps vectors and peers' indexes")
    parser.add_argument("--json", type=Path, metavar="FILE", help="all figures as JSON")
    return parser.parse_args()


def in_a_clean_environment(threads: int, blas_core: str | None) -> None:
    """Starts this command anew with the variables that BLAS reads only when it is loaded."""
    if os.environ.get(_MARK) == str(threads):
        return
    environment = dict(os.environ)
    for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
        environment.pop(name, None)
    if blas_core is not None:
        environment["OPENBLAS_CORETYPE"] = blas_core
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", _MARK):
        environment[name] = str(threads)
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)


def main() -> int:
    options = arguments()
    in_a_clean_environment(options.threads, options.blas_core)

    import faiss
    import numpy as np
    from rich.console import Console

    from comparison import computing, searching
    from comparison.findings import Finding, print_finding, write_json
    from flashbulb import Policy, _core

    rows: dict[str, Callable[[searching.Settings], Iterator[Finding]]] = {
        "exact-1m": partial(searching.exact, row="exact-1m", count=1_000_000, target=6.0),
        "exact-100k": partial(searching.exact, row="exact-100k", count=100_000, target=5.0),
        "exact-10k": partial(searching.exact, row="exact-10k", count=10_000, target=3.0),
        "small-1k": partial(searching.small, row="small-1k", count=1_000, target=1.0),
        "batch-100k": partial(searching.batch, row="batch-100k", count=100_000),
        "batch-1m": partial(searching.batch, row="batch-1m", count=1_000_000),
        "approximate": partial(searching.approximate, row="approximate", count=1_000_000),
        "welford": partial(computing.welford, row="welford", count=1_000_000),
        "decay": partial(computing.decay, row="decay", count=1_000_000),
        "bonus": partial(computing.bonus, row="bonus", count=1_000_000),
        "rif": partial(computing.forgetting, row="rif", count=1_000_000, target=5.0),
        "threads": partial(searching.threads, row="threads", count=1_000_000, target=1.6),
    }
    wanted = list(rows) if options.row == ["all"] else options.row
    unknown = sorted(set(wanted) - set(rows))
    if unknown:
        raise SystemExit(f"unknown row {unknown[0]!r}; expected all, {', '.join(rows)}")
    settings = searching.Settings(
        rows=options.rows,
        dim=options.dim,
        data=options.data,
        vivid=options.vivid,
        policy=Policy.published() if options.published else Policy(),
        engine={"path": options.path, "storage": options.storage, "approximate": False},
        peers=options.peers,
        cache=options.cache,
        threads=options.threads,
        seconds=options.seconds,
        queries=options.queries,
    )
    searching.use_threads(options.threads)
    console = Console()
    if not console.is_terminal:  # a file or a pipe has room
        console = Console(width=_WIDTH)
    about = {
        "level": _core.simd_level(),
        "threads": options.threads,
        "policy": "published" if options.published else "default",
        "faiss": faiss.__version__,
        "numpy": np.__version__,
        "processor": _processor(),
    }
    console.print(", ".join(f"{key} {value}" for key, value in about.items()), "\n")
    findings = []
    for name in wanted:
        for finding in rows[name](settings):
            findings.append(finding)
            print_finding(finding, console)
            if options.json:
                write_json(findings, about, options.json)
    return int(any(finding.agreed is False for finding in findings))


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return "unknown"


if __name__ == "__main__":
    raise SystemExit(main())
