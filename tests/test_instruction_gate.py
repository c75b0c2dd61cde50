"""The gate on instruction counts lets nothing grow unseen: what it says about given counts."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"
BUILT = {"compiler": "gcc 12", "level": "v3"}
BASELINE = {**BUILT, "instructions": {"search": 1000, "decay": 200}}


@pytest.fixture(scope="module")
def gate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("instructions", BENCHMARKS / "instructions.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["instructions"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("search", "passes", "said"),
    [
        (1000, True, "+0.0%"),
        (1050, True, "+5.0%"),
        (1051, False, "GREW by 5.1%"),
        (2000, False, "GREW by 100.0%"),
        (950, True, "-5.0%"),
        (949, True, "fell by 5.1%"),
    ],
)
def test_growth_beyond_the_tolerance_fails_and_a_fall_is_reported(
    gate: ModuleType, search: int, passes: bool, said: str
) -> None:
    lines, passed = gate.judge(BASELINE, BUILT, {"search": search, "decay": 200})
    assert passed is passes
    assert said in next(line for line in lines if line.startswith("search"))


@pytest.mark.parametrize(
    "counts",
    [{"search": 1000}, {"search": 1000, "decay": 200, "new": 1}],
    ids=["not counted any more", "not in the baseline"],
)
def test_a_scenario_without_a_counterpart_fails(gate: ModuleType, counts: dict[str, int]) -> None:
    assert gate.judge(BASELINE, BUILT, counts)[1] is False


@pytest.mark.parametrize("other", [{"compiler": "gcc 13"}, {"library": "glibc 2.40"}])
def test_another_build_is_not_compared_and_says_so(gate: ModuleType, other: dict[str, str]) -> None:
    lines, passed = gate.judge(BASELINE, {**BUILT, **other}, {"search": 5000, "decay": 200})
    assert passed
    assert "SKIPPED" in lines[0]
    assert "gcc 12" in lines[0]


def test_a_dump_names_its_scenario_and_what_it_counted(gate: ModuleType) -> None:
    dump = "part: 3\ndesc: Trigger: --dump-after=scenario_decay\nsummary: 42\n\ntotals: 99\n"
    assert gate.parse_dump(dump) == ("decay", 42)
    last = "part: 4\ndesc: Trigger: Program termination\nsummary: 7\n"
    assert gate.parse_dump(last) is None


def test_the_committed_baseline_has_every_scenario_of_the_driver(gate: ModuleType) -> None:
    source = (BENCHMARKS / "cpp" / "instructions.cpp").read_text()
    defined = {
        part.split(")")[0] for part in source.split("SCENARIO(")[1:] if not part.startswith("name)")
    }
    baseline = json.loads(gate.BASELINE.read_text())
    assert set(baseline["instructions"]) == defined
    assert all(count > 0 for count in baseline["instructions"].values())
