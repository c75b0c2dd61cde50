"""Checks of what users hand in. Each names what was expected and what came."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Container, Mapping
from itertools import islice
from typing import Any

import numpy as np

from flashbulb import _core
from flashbulb._time import to_moment
from flashbulb.errors import MemoryNotFound

__all__ = [
    "HIGHEST_ID",
    "MAX_BATCH",
    "MAX_FACT",
    "MAX_ID",
    "MAX_METADATA",
    "MAX_NAMESPACE",
    "MAX_TAG",
    "MAX_TAGS",
    "MAX_TEXT",
    "check_bool",
    "check_count",
    "check_dim",
    "check_file",
    "check_filter",
    "check_id",
    "check_items",
    "check_limit",
    "check_mapping",
    "check_metadata",
    "check_moment",
    "check_namespace",
    "check_number",
    "check_optional_text",
    "check_path",
    "check_status",
    "check_str",
    "check_tags",
    "check_text",
    "check_timeout",
    "check_unit",
    "is_one_of",
    "same_json",
    "to_json",
]

MAX_ID = 2**63 - 1

HIGHEST_ID = 2**62
"""The last id that a store gives out, and an import takes."""

MAX_DEPTH = 32
"""Levels of metadata: what is stored can be read however deep the reader's own calls are."""

# Bytes in UTF-8; docs/limits.md has the same.
MAX_TEXT = 16 * 2**20
"""Of a text, a context, a query."""
MAX_FACT = 2**16
"""Of who, what, when and where."""
MAX_TAG = 2**10
MAX_NAMESPACE = 2**10
MAX_METADATA = 2**20
"""Of the JSON of metadata, and of a filter."""

MAX_TAGS = 1000
"""Tags of one memory, or of one question."""
MAX_BATCH = 1_000_000
"""Items of one ``remember_many``."""


def check_str(value: object, name: str) -> str:
    """Any string."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a str, got {type(value).__name__}")
    return str.__str__(value)  # its characters, where a subclass (an Enum) would say other ones


def check_text(value: object, name: str, *, empty: bool = False, at_most: int = MAX_TEXT) -> str:
    """A string that can be stored: valid Unicode, not too long, and not blank unless `empty`."""
    value = check_str(value, name)
    try:
        size = len(value.encode("utf-8"))
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{name} must be valid Unicode, got a lone surrogate {value[error.start]!r} "
            f"at position {error.start}"
        ) from None
    if not empty and not value.strip():
        raise ValueError(f"{name} must not be blank, got {value[:20]!r}")
    if size > at_most:
        raise ValueError(f"{name} must have at most {at_most:,} bytes in UTF-8, got {size:,}")
    return value


def check_namespace(value: object) -> str:
    """The name of a namespace."""
    return check_text(value, "namespace", at_most=MAX_NAMESPACE)


def check_optional_text(value: object, name: str) -> str | None:
    """None, or who, what, when or where."""
    return None if value is None else check_text(value, name, at_most=MAX_FACT)


def check_moment(value: object, name: str) -> str | None:
    """Free text, or a point in time as ISO text."""
    if value is None or isinstance(value, str):
        return check_optional_text(value, name)
    return to_moment(value, name)


def check_path(value: object, name: str = "path") -> str:
    """The path of a file, as text."""
    if not isinstance(value, (str, os.PathLike)):
        raise TypeError(f"{name} must be a str or a path, got {type(value).__name__}")
    path = check_text(os.fspath(value), name)
    if "\0" in path:
        raise ValueError(f"{name} must not hold a null character, got {path!r:.80}")
    return path


def check_file(value: object, name: str = "path") -> str:
    """The path of a file that is there, or can be: of no folder."""
    path = check_path(value, name)
    if os.path.isdir(path):
        raise ValueError(f"{name} must be a file, got the folder {path}")
    return path


def check_timeout(value: object) -> float:
    """How many seconds to wait: 0 or more, for ever if infinite."""
    seconds = check_limit(value, "timeout")
    if seconds is None or seconds < 0:
        raise ValueError(f"timeout must be 0 or more seconds, got {value!r}")
    return seconds


def check_items(
    value: object, name: str, of: str = "str", *, at_most: int | None = None
) -> list[Any]:
    """What a sequence, or anything else to be iterated over, holds; a text or a dict is none.

    No more than `at_most` items, and one, are taken out of it.
    """
    wanted = f"{name} must be a sequence of {of}"
    if isinstance(value, (str, bytes)):
        raise TypeError(f"{wanted}, got the single {value!r:.80}; write [{value!r:.20}]")
    if isinstance(value, Mapping):
        raise TypeError(f"{wanted}, got {type(value).__name__}")
    items: Any = value
    try:
        each = iter(items)
    except TypeError:
        raise TypeError(f"{wanted}, got {type(value).__name__}") from None
    if at_most is None:
        return list(each)
    found = list(islice(each, at_most + 1))
    if len(found) > at_most:
        raise ValueError(f"{name} must be at most {at_most:,}, got more")
    return found


def check_mapping(value: object, name: str) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(f"{name} must be a dict, got {type(value).__name__}")
    return value


def is_one_of(value: object, choices: Container[str]) -> bool:
    """Whether it is one of these words; nothing else is, an array for one."""
    return isinstance(value, str) and value in choices


def check_tags(value: object, name: str = "tags") -> tuple[str, ...]:
    """Tags without repeats, in the order given."""
    tags = check_items(value, name, at_most=MAX_TAGS)
    return tuple(
        dict.fromkeys(
            check_text(tag, f"{name}[{i}]", at_most=MAX_TAG) for i, tag in enumerate(tags)
        )
    )


def to_json(value: object) -> str:
    """Compact JSON, readable as UTF-8."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _is_within(value: object, levels: int) -> bool:
    """Whether containers lie in each other at most so deep."""
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        return True
    return levels > 0 and all(_is_within(child, levels - 1) for child in value)


def check_metadata(value: object, name: str = "metadata") -> str:
    """The JSON of a dict that comes back from it just as it was given."""
    if value is None:
        return "{}"
    if not isinstance(value, dict):
        raise TypeError(f"{name} must be a dict, got {type(value).__name__}")
    if not _is_within(value, MAX_DEPTH):
        raise ValueError(f"{name} must be nested at most {MAX_DEPTH} levels deep")
    try:
        text = to_json(value)
        same = json.loads(text) == value
        size = len(text.encode("utf-8"))
    except TypeError as error:
        raise TypeError(f"{name} must hold only what JSON can hold: {error}") from None
    except ValueError as error:
        raise ValueError(f"{name} must hold only what JSON can hold: {error}") from None
    if size > MAX_METADATA:
        raise ValueError(f"{name} must have at most {MAX_METADATA:,} bytes as JSON, got {size:,}")
    if not same:
        raise ValueError(
            f"{name} would not come back from JSON as it is; use str keys, and lists for tuples"
        )
    return text


def check_filter(value: object) -> dict[str, Any]:
    """The metadata to look for; None asks for nothing."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise TypeError(f"filter must be a dict of metadata, got {type(value).__name__}")
    wanted: dict[str, Any] = json.loads(check_metadata(dict(value), "filter"))
    return wanted


def check_bool(value: object, name: str) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be a bool, got {type(value).__name__}")
    return bool(value)


def check_unit(value: object, name: str) -> float:
    """A finite number in [0, 1]."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(
        value, (int, float, np.integer, np.floating)
    ):
        raise TypeError(f"{name} must be a number in [0, 1], got {type(value).__name__}")
    if not 0 <= value <= 1:  # also false for NaN
        raise ValueError(f"{name} must be a number in [0, 1], got {value!r:.80}")
    return float(value) + 0.0


class NotACount(TypeError, ValueError):
    """A number of things that is no int: neither of the right type nor of a right value."""


def check_count(value: object, name: str) -> int:
    """A non-negative integer, however large."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise NotACount(f"{name} must be an int, got {type(value).__name__} {value!r:.80}")
    if value < 0:
        raise ValueError(f"{name} must not be negative, got {value}")
    return int(value)


def check_dim(value: object) -> int:
    """A number of dimensions that the core can hold."""
    dim = check_count(value, "dim")
    largest = _core.Sketch.largest_dim
    if not 1 <= dim <= largest:
        raise ValueError(f"dim must be in [1, {largest}], got {dim}")
    return dim


def check_id(value: object) -> int:
    """An id that could exist.

    Raises
    ------
    TypeError
        For anything but an int or a NumPy integer: a bool, 1.0 and "1" are no ids.
    MemoryNotFound
        For an integer that no memory can have.
    """
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"an id must be an int, got {type(value).__name__} {value!r:.80}")
    id = int(value)
    if not 0 < id <= MAX_ID:
        raise MemoryNotFound("no memory can have an id below 1 or above 2**63 - 1")
    return id


def check_status(value: object) -> str | None:
    if value is None:
        return None
    if isinstance(value, str) and value in ("none", "open", "completed"):
        return str.__str__(value)
    raise ValueError(f"status must be None, 'none', 'open' or 'completed', got {value!r:.80}")


def check_limit(value: object, name: str) -> float | None:
    """None or a number that float64 holds and that is not NaN."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise TypeError(f"{name} must be a number, got {type(value).__name__}")
    try:
        number = float(value)
    except OverflowError:
        number = math.nan
    if math.isnan(number):
        raise ValueError(f"{name} must be a number of float64, got {value!r:.80}")
    return number


def check_number(value: object, name: str) -> float:
    """A number that float64 holds and that is not NaN."""
    number = check_limit(value, name)
    if number is None:
        raise TypeError(f"{name} must be a number, got None")
    return number


def same_json(left: Any, right: Any) -> bool:
    """Equality of JSON values: as in Python, but true is not 1."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same_json(left[k], right[k]) for k in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same_json, left, right))
    return bool(left == right)
