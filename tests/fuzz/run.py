"""Feed a reader with bytes that coverage leads to, under atheris.

    python tests/fuzz/run.py jsonl -max_total_time=60

Options after the target are libFuzzer's. What is found new goes into a folder that is thrown away,
unless another one is named first; the corpus stays as it is.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).parent))

with atheris.instrument_imports(include=["flashbulb", "json", "csv", "tomli", "tomllib"]):
    from readers import CORPUS, TARGETS


def main() -> None:
    name, *options = sys.argv[1:]
    target = TARGETS[name]
    with tempfile.TemporaryDirectory() as new:
        folders = [each for each in options if not each.startswith("-")] or [new]
        flags = [each for each in options if each.startswith("-")]
        atheris.Setup([sys.argv[0], *flags, *folders, str(CORPUS / name)], target)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
