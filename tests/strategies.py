"""What several test modules draw from: sizes, policies, engines full of varied memories.

Hypothesis draws the shape of a case and one seed; NumPy fills the arrays from that seed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from flashbulb import Engine, Policy, _faiss

# FLASHBULB_TEST_EFFORT=20 looks twenty times as hard.
_EFFORT = float(os.environ.get("FLASHBULB_TEST_EFFORT", "1"))

# Around the widths of vectors, unrolled loops and blocks (256 rows).
SIZES = (0, 1, 2, 7, 15, 16, 17, 63, 64, 65, 255, 256, 257)
DIMS = (1, 2, 3, 5, 8, 9, 15, 16, 17, 31, 33, 100, 257, 385)

DAY = 86_400.0
NOW = 1_700_000_000.0
TAGS = tuple(f"tag{i}" for i in range(40))

seeds = st.integers(0, 2**32 - 1)


def examples(count: int) -> settings:
    """Settings for a property whose every example costs milliseconds."""
    return settings(
        max_examples=max(1, round(count * _EFFORT)),
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    """Published, default and odd constants, in both decay laws."""
    changes: dict[str, Any] = {
        "decay_law": draw(st.sampled_from(["clamp", "asymptotic"])),
        "strength_interval_seconds": draw(st.sampled_from([0.0, 60.0, 3600.0])),
        "completion_lowers_floor": draw(st.booleans()),
        "open_task_salience": draw(st.sampled_from([0.0, 0.5, 1.0])),
        "rif_similarity": draw(st.sampled_from([0.0, 0.3, 0.7])),
    }
    for term in ("vividness", "recency"):
        start, end = draw(st.sampled_from([(0.0, 0.0), (0.0, 0.1), (0.2, 0.6), (-1.0, 1.0)]))
        changes |= {f"{term}_ramp_start": start, f"{term}_ramp_end": end}
    return Policy(**changes)


def unit_rows(rng: np.random.Generator, count: int, dim: int, style: str) -> np.ndarray:
    """Vectors: "random"; "equal": few distinct ones; "close": copies with a last bit of noise."""
    if style == "random" or count == 0:
        return rng.normal(size=(count, dim))
    base = rng.normal(size=(max(1, count // 10) if style == "equal" else 2, dim))
    rows = base[rng.integers(len(base), size=count)]
    if style == "close":
        rows = rows * (1.0 + 1e-7 * rng.integers(-2, 3, size=rows.shape))
    return rows


def fill(engine: Engine, rng: np.random.Generator, count: int, style: str = "random") -> None:
    """Adds memories of every kind: tasks, pinned, tagged, of the future, accessed, completed."""
    steps = np.array([0.0, 0.3, 0.5, 0.7, 0.79, 0.8, 0.95, 1.0])
    is_task = rng.random(count) < 0.3
    ids = engine.add(
        unit_rows(rng, count, engine.dim, style),
        salience=rng.choice(steps, size=count),
        urgency=np.where(is_task, rng.choice(steps, size=count), np.nan),
        tags=[tuple(rng.choice(TAGS, size=rng.integers(4))) for _ in range(count)],
        created=NOW + DAY * rng.choice([-400.0, -31.5, -7.0, -1.0, -0.01, 0.0, 9.0], size=count),
        pinned=rng.random(count) < 0.05,
        now=NOW,
    )
    engine.touch(ids[rng.random(count) < 0.2], NOW + 30.0)
    engine.complete(ids[is_task & (rng.random(count) < 0.5)], NOW + 60.0)


@contextmanager
def segments_of(rows: int | None) -> Iterator[None]:
    """Own stores made inside have segments of so many rows; None: as many as always."""
    with pytest.MonkeyPatch.context() as patch:
        if rows is not None:
            patch.setattr(_faiss, "segment_rows", lambda _: rows)
        yield


def made_engine(
    seed: int,
    count: int,
    dim: int,
    policy: Policy | None = None,
    *,
    style: str = "random",
    removed: float = 0.0,
    index: Any = None,
) -> Engine:
    """An engine of ``count`` memories, of which a share is removed again from anywhere."""
    rng = np.random.default_rng(seed)
    engine = Engine(dim if index is None else index, policy=policy)
    fill(engine, rng, count, style)
    if removed:
        engine.remove(engine.ids[rng.random(len(engine)) < removed])
    return engine


def assert_same_state(state: dict[str, Any], expected: dict[str, Any]) -> None:
    """Bit for bit, -0.0 apart; NaN equals NaN."""
    assert state.keys() == expected.keys()
    for name, value in state.items():
        if isinstance(value, np.ndarray):
            assert value.dtype == expected[name].dtype, name
            np.testing.assert_array_equal(value, expected[name], err_msg=name)
        else:
            assert value == expected[name], name
