"""The names of the package: all there, loaded on first use, and an error that says what to do."""

from __future__ import annotations

import subprocess
import sys

import pytest

import flashbulb


def output_of(program: str) -> str:
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return result.stdout


@pytest.mark.parametrize("name", flashbulb.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(flashbulb, name) is not None
    assert name in dir(flashbulb)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Remember'"):
        _ = flashbulb.Remember


def test_the_package_alone_loads_nothing_heavy() -> None:
    program = "import sys, flashbulb; print([m for m in ('faiss', 'numpy') if m in sys.modules])"
    assert output_of(program) == "[]\n"


@pytest.mark.parametrize("block", ["sys.modules['flashbulb._core'] = None", "hide()"])
def test_a_missing_native_module_says_what_to_do(block: str) -> None:
    program = f"""
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name == "flashbulb._core":
            raise ModuleNotFoundError("No module named 'flashbulb._core'", name=name)
def hide():
    sys.meta_path.insert(0, Hidden())
{block}
for name in ("Memory", "Engine", "SurpriseDetector"):
    try:
        import flashbulb
        getattr(flashbulb, name)
    except ImportError as error:
        print(error)
"""
    printed = output_of(program)
    assert printed.count("pip install .") == 3
    assert printed.count("native module could not be loaded") == 3
