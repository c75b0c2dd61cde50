"""``flashbulb train-arousal``: a model of what is critical, fitted to a user's own labels."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections import Counter
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from flashbulb.cli import output
from flashbulb.drawing import console, printable

if TYPE_CHECKING:
    from flashbulb.embedding import Embedder

__all__ = ["train_arousal"]


def train_arousal(arguments: Namespace) -> int:
    from flashbulb.arousal import training
    from flashbulb.arousal.labels import read_labels
    from flashbulb.policy import Policy

    target = Path(arguments.output)
    _check_target(target, Path(arguments.labels))
    try:
        labelled = read_labels(arguments.labels)
    except OSError as error:
        raise ValueError(f"cannot read {arguments.labels}: {error.strerror}") from error
    try:
        embedder = _embedder(arguments.embedder, arguments.store)
        with output.progress_bar("training", training.STEPS, quiet=arguments.quiet) as advance:
            found = training.train(
                labelled.texts,
                labelled.labels,
                groups=labelled.groups,
                embedder=embedder,
                progress=advance,
            )
    except ImportError as error:
        raise ValueError(str(error)) from None
    found.model.save(target)
    threshold = Policy().flashbulb_threshold
    critical = training.numbered(labelled.texts, labelled.labels) == training.LABELS.index(
        "critical"
    )
    quality = training.quality(found.probabilities, critical, threshold)
    values = {
        "output": str(target),
        "bytes": target.stat().st_size,
        "embedder": embedder.name,
        "texts": len(labelled.texts),
        "groups": len(set(labelled.groups)),
        "labels": dict(Counter(labelled.labels).most_common()),
        "threshold": threshold,
        "f1": quality.f1,
        "auroc": quality.auroc,
        "calibration_error": quality.calibration_error,
    }
    if arguments.json:
        output.print_json(values)
    else:
        _show(console(), values)
    return 0


def _show(out: Console, values: dict[str, Any]) -> None:
    counts = ", ".join(f"{count} {label}" for label, count in values["labels"].items())
    path = printable(values["output"])
    lines = (
        f"{values['texts']} texts ({counts}) in {values['groups']} groups, "
        f"embedder {printable(values['embedder'])}",
        "Each text judged by a model that saw nothing of its group:",
        f"  F1 of critical texts at {values['threshold']:g}   {values['f1']:.3f}",
        f"  AUROC                        {values['auroc']:.3f}",
        f"  calibration error            {values['calibration_error']:.3f}",
        f"{path}, {values['bytes'] / 1e3:.0f} kB. To use it:",
        f"  flashbulb explain TEXT --model {path}",
        f'  Memory(..., detector=ArousalDetector(model=ArousalModel.load("{path}")))',
    )
    for line in lines:
        out.print(Text(line), soft_wrap=True)


def _check_target(target: Path, labels: Path) -> None:
    """Find before the training what would keep its result from being written."""
    folder = target.parent
    if target.is_dir():
        raise ValueError(f"the output must be a file, {target} is a folder")
    if not folder.is_dir():
        raise ValueError(f"cannot write {target}: there is no folder {folder}")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ValueError(f"cannot write {target}: the folder {folder} may not be written to")
    if target.exists() and labels.exists() and target.samefile(labels):
        raise ValueError(f"the output would replace the labels in {labels}")


def _embedder(name: str | None, store: str | None) -> Embedder:
    """The embedder of this name, or the one that a store was made with."""
    from flashbulb.errors import EmbedderMismatch, FlashbulbError

    if store is None:
        return _resolved(name or "default")
    if not Path(store).exists():
        raise FlashbulbError(f"there is no store {store}")
    try:
        return _fitting(name or "default", store)
    except EmbedderMismatch as error:
        if name is not None:
            raise
        with suppress(EmbedderMismatch, ImportError):
            return _fitting("minilm", store)
        raise EmbedderMismatch(f"{error}; name its own: --embedder MODULE:NAME") from None


def _fitting(name: str, store: str) -> Embedder:
    from flashbulb import Memory, ReadOnlyStore

    embedder = _resolved(name)
    try:
        Memory(store, embedder=embedder, neutral=True, read_only=True).close()
    except ReadOnlyStore:  # an older one, or nothing yet
        Memory(store, embedder=embedder, neutral=True).close()
    return embedder


def _resolved(name: str) -> Embedder:
    """The embedder of a name that Flashbulb knows, or what ``MODULE:NAME`` stands for."""
    from flashbulb.embedding import resolve_embedder

    module, colon, attribute = name.partition(":")
    if not colon:
        return resolve_embedder(name)
    if "" not in sys.path:  # as `python -m` has it: modules of the current folder are found
        sys.path.insert(0, "")
    try:
        found: Any = import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
        return resolve_embedder(found() if isinstance(found, type) else found)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise ValueError(f"there is no embedder {name}: {error}") from error
