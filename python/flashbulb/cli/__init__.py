"""The ``flashbulb`` command.

Exit codes: 0 done, 1 what was asked for is not there (or a check failed), 2 bad usage or argument,
3 the store cannot be used, 130 interrupted.
"""

from __future__ import annotations

import io
import os
import sqlite3
import sys
from collections.abc import Sequence

from flashbulb.cli.parser import build_parser
from flashbulb.errors import FlashbulbError, MemoryNotFound

__all__ = ["main"]

NOT_THERE, USAGE, STORE, INTERRUPTED, CLOSED_PIPE = 1, 2, 3, 130, 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command with these arguments, or those of the process; return the exit code."""
    _open_standard_streams()
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal that lacks a character shows a question mark: it is no reason to fail.
        sys.stdout.reconfigure(errors="replace")
    try:
        arguments = build_parser().parse_args(argv)
        code: int = arguments.run(arguments)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader, `head` for one, wants no more; nor must the interpreter flush at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CLOSED_PIPE
    except MemoryNotFound as error:
        return _fail(error, NOT_THERE)
    except (FlashbulbError, OSError, sqlite3.Error) as error:
        return _fail(error, STORE)
    except ValueError as error:
        return _fail(error, USAGE)
    return code


def _fail(error: Exception, code: int) -> int:
    print(f"flashbulb: {error}", file=sys.stderr)
    return code


def _open_standard_streams() -> None:
    """A stream that was closed reads and writes nothing; else a store might get its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode, encoding="utf-8"))
