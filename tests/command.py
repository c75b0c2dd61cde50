"""The command in this process."""

from __future__ import annotations

import pytest

from flashbulb.cli import main


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of the command in this process."""
    try:
        code = main(arguments)
    except SystemExit as end:  # argparse, for help and bad usage
        code = end.code if isinstance(end.code, int) else 1
    captured = capsys.readouterr()
    return code, captured.out, captured.err
