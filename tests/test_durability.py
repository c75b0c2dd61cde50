"""Each promise of docs/durability.md names tests, and there are such tests."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_the_tests_that_it_names_are_there() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", (ROOT / "docs/durability.md").read_text())
    assert len(named) > 10
    for file, test in named:
        assert f"\ndef {test}(" in (ROOT / file).read_text(), f"{file} has no {test}"
