"""What the tests of crashes share: the shim, the parent of the children, folders in RAM."""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from crash import shim
from crash.zygote import Trial, Zygote


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path | None:
    return shim.build(tmp_path_factory.mktemp("shim"))


@pytest.fixture(scope="session")
def shimmed(library: Path | None) -> None:
    """For tests that can do nothing without it."""
    if library is None:
        pytest.skip("no C compiler (cc) to build the shim that watches file system calls")


@pytest.fixture(scope="session")
def zygote(library: Path | None) -> Iterator[Zygote]:
    zygote = Zygote(library)
    yield zygote
    zygote.end()


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """In RAM if there is room: what a disk does with what is synced is simulated."""
    memory = Path("/dev/shm")
    if not memory.is_dir() or shutil.disk_usage(memory).free < 2**29:
        yield tmp_path
        return
    made = Path(tempfile.mkdtemp(prefix="flashbulb-", dir=memory))
    yield made
    shutil.rmtree(made)


@pytest.fixture
def trials(folder: Path) -> Callable[[], Trial]:
    """New ones, each of which has gone when the next comes."""
    numbers = itertools.count()

    def new() -> Trial:
        number = next(numbers)
        shutil.rmtree(folder / f"{number - 1}", ignore_errors=True)
        return Trial(folder / f"{number}")

    return new


@pytest.fixture(scope="session")
def seed(request: pytest.FixtureRequest) -> int:
    """Of everything that these tests draw; another one at each run, unless it is given."""
    given: int | None = request.config.getoption("--crash-seed")
    return int.from_bytes(os.urandom(3), "big") if given is None else given


@pytest.fixture
def said(seed: int) -> None:
    """pytest shows it with the output of a test that failed."""
    print(f"to repeat this: pytest tests/crash --crash-seed {seed}")


@pytest.fixture(scope="session")
def kills(request: pytest.FixtureRequest) -> int:
    count: int = request.config.getoption("--crash-kills")
    return count
