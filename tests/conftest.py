"""Fixtures that several test modules share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder with the real data sets, which are not part of the repository."""
    default = Path(__file__).resolve().parents[1].parent / "shared" / "data"
    folder = Path(os.environ.get("FLASHBULB_DATA", default))
    if not folder.is_dir():
        pytest.skip(f"no real data at {folder}; set FLASHBULB_DATA to run this test")
    return folder
