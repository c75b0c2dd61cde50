"""The one command of the quality benchmarks finds its tables; what they measure needs real data."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

QUALITY = Path(__file__).resolve().parents[1] / "benchmarks" / "quality"


def command(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(QUALITY), *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
    )


@pytest.fixture(autouse=True)
def there() -> None:
    if not QUALITY.is_dir():
        pytest.skip("no benchmarks here")


def test_modules_with_rows_take_part_by_name() -> None:
    done = command("--list")
    assert done.returncode == 0, done.stderr
    names = set(done.stdout.split())
    assert {"arousal", "cost", "llm_share", "retrieval", "use"} <= names
    assert "datasets" not in names  # it has no rows


def test_an_unknown_name_is_refused_with_those_there_are() -> None:
    done = command("--only", "nothing")
    assert done.returncode == 2
    assert "retrieval" in done.stderr


def test_without_data_it_says_what_to_set(tmp_path: Path) -> None:
    done = command("--only", "retrieval", FLASHBULB_DATA=str(tmp_path / "nowhere"))
    assert done.returncode == 1
    assert "set FLASHBULB_DATA" in done.stderr
