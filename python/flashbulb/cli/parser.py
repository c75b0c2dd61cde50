"""Arguments of the ``flashbulb`` command; each help teaches with an example."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from typing import Any

from flashbulb.cli import verbs
from flashbulb.cli.training import train_arousal

__all__ = ["build_parser"]


class _Version(argparse.Action):
    """Looks the version up only when it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object, **__: object) -> None:
        import flashbulb

        print(f"flashbulb {flashbulb.__version__}")
        parser.exit()


def build_parser() -> argparse.ArgumentParser:
    """The parser; ``run`` of what it returns is the verb's function."""
    parser = argparse.ArgumentParser(
        prog="flashbulb",
        description="A memory for agents that remembers what matters.",
        epilog="""examples:
  flashbulb demo
  flashbulb remember "CRITICAL: payments are down" --tag payments --urgency 0.9 --store agent.db
  flashbulb recall "what is unresolved?" --store agent.db

exit codes:
  0 done; 1 what was asked for is not there; 2 bad argument; 3 the store cannot be used""",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version")
    commands = parser.add_subparsers(metavar="VERB", required=True)

    def verb(
        name: str,
        run: Callable[[argparse.Namespace], int],
        summary: str,
        example: str,
        *,
        store: bool = True,
        namespace: bool = True,
        now: bool = True,
    ) -> argparse.ArgumentParser:
        command: argparse.ArgumentParser = commands.add_parser(
            name,
            help=summary,
            description=summary[0].upper() + summary[1:] + ".",
            epilog=f"example:\n  {example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.set_defaults(run=run)
        if store:
            command.add_argument("--store", required=True, metavar="PATH", help="the store's file")
            if namespace:
                command.add_argument(
                    "--namespace", default="default", metavar="NAME", help="whose memories"
                )
            _timeout(command)
        if now:
            command.add_argument(
                "--now",
                type=_time,
                metavar="TIME",
                help="instead of the present: ISO 8601 with a zone, or epoch seconds",
            )
        command.add_argument("--json", action="store_true", help="print JSON, for programs")
        return command

    _demo(verb)
    _remember(verb)
    _recall(verb)
    _why_not(verb)
    _explain(verb)
    _train_arousal(verb)
    _by_id(verb)
    _list(verb)
    verb(
        "stats",
        verbs.stats,
        "count what a store holds",
        "flashbulb stats --store agent.db",
        now=False,
    )
    _tiers(verb)
    _replay(verb)
    _files(verb)
    _checks(verb)
    return parser


_Verb = Callable[..., argparse.ArgumentParser]


def _timeout(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--timeout",
        type=_seconds,
        default=5.0,
        metavar="SECONDS",
        help="how long to wait for who has the store open (default: 5)",
    )


def _demo(verb: _Verb) -> None:
    command = verb(
        "demo",
        verbs.demo,
        "replay 90 days of a small shop, then ask: plain similarity and Flashbulb side by side",
        "flashbulb demo --top 5",
        store=False,
        now=False,
    )
    command.add_argument(
        "--check", action="store_true", help="exit with 1 unless every promised answer is first"
    )
    command.add_argument(
        "--top", type=_positive, default=3, metavar="N", help="ranks to show (default: 3)"
    )
    command.add_argument(
        "--store", default=":memory:", metavar="PATH", help="keep the memories in a new store"
    )


def _remember(verb: _Verb) -> None:
    command = verb(
        "remember",
        verbs.remember,
        "store a text",
        'flashbulb remember "Customer data was leaked" --tag privacy --urgency 1 --store agent.db',
    )
    command.add_argument("text", metavar="TEXT", help="what to remember; - reads standard input")
    command.add_argument("--tag", action="append", default=[], metavar="TAG", help="repeatable")
    command.add_argument(
        "--urgency", type=_unit, metavar="0..1", help="makes it an open task, until completed"
    )
    command.add_argument(
        "--context",
        default="",
        metavar="TEXT",
        help="what surrounds it: a drill, a film; not stored",
    )
    command.add_argument(
        "--arousal", type=_unit, metavar="0..1", help="in place of the detector's judgement"
    )
    command.add_argument(
        "--metadata", type=_json_object, metavar="JSON", help="""such as '{"ticket": 17}'"""
    )
    _model(command)


def _recall(verb: _Verb) -> None:
    command = verb(
        "recall",
        verbs.recall,
        "find the best memories for a query",
        'flashbulb recall "what is unresolved?" -k 5 --status open --explain --store agent.db',
    )
    command.add_argument("query", metavar="QUERY", help="what to look for")
    _filters(command)
    command.add_argument(
        "--no-reinforce",
        dest="reinforce",
        action="store_false",
        help="look only: do not strengthen what is found",
    )
    _archived(command)
    command.add_argument(
        "--explain", action="store_true", help="print each score term by term, not as a table"
    )


def _archived(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--archived", action="store_true", help="look in the archive too, see 'retention'"
    )


def _filters(command: argparse.ArgumentParser) -> None:
    """What says which memories a query is about."""
    command.add_argument(
        "-k", type=_count, default=10, metavar="N", help="at most so many (default: 10)"
    )
    command.add_argument(
        "--tag", action="append", metavar="TAG", help="only with this tag; repeatable: with all"
    )
    command.add_argument(
        "--status", choices=("open", "completed", "none"), help="of a task; none: no task"
    )
    command.add_argument("--since", type=_time, metavar="TIME", help="only from then on")
    command.add_argument("--until", type=_time, metavar="TIME", help="only before then")
    command.add_argument(
        "--filter",
        type=_json_object,
        metavar="JSON",
        help="""only with this metadata, such as '{"ticket": 17}'""",
    )
    command.add_argument(
        "--min-score", type=_number, metavar="SCORE", help="only with at least this score"
    )


def _why_not(verb: _Verb) -> None:
    command = verb(
        "why-not",
        verbs.why_not,
        "say why a memory is not among the best for a query",
        'flashbulb why-not "what is unresolved?" 12 -k 5 --store agent.db',
    )
    command.add_argument("query", metavar="QUERY", help="what to look for")
    command.add_argument("id", type=int, metavar="ID", help="as recall shows it")
    _filters(command)


def _explain(verb: _Verb) -> None:
    command = verb(
        "explain",
        verbs.explain,
        "show what makes a text critical, or not; nothing is stored",
        'flashbulb explain "Customer data leaked last night, see SEC-4411"',
        store=False,
    )
    command.add_argument("text", metavar="TEXT", help="what to judge; - reads standard input")
    command.add_argument(
        "--context", default="", metavar="TEXT", help="what surrounds it: a drill, a film"
    )
    command.add_argument(
        "--store", default=":memory:", metavar="PATH", help="judge as this store would"
    )
    command.add_argument(
        "--llm", metavar="MODEL", help="ask this model too where the rest is unsure"
    )
    command.add_argument(
        "--llm-url",
        metavar="URL",
        help="its OpenAI-compatible server, such as http://localhost:11434/v1",
    )
    _model(command)
    command.set_defaults(namespace="default")


def _model(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--model", metavar="FILE", help="judge with this model of train-arousal, not Flashbulb's"
    )


def _train_arousal(verb: _Verb) -> None:
    command = verb(
        "train-arousal",
        train_arousal,
        "fit a model of what is critical to labels of your own",
        "flashbulb train-arousal labels.tsv --output model.npz",
        store=False,
        now=False,
    )
    command.add_argument(
        "labels",
        metavar="LABELS.tsv",
        help="tab-separated or CSV, with columns text and label (critical, important or mundane), "
        "perhaps group or pair: what belongs together",
    )
    command.add_argument(
        "--output", required=True, metavar="FILE", help="the model; what was there is replaced"
    )
    command.add_argument(
        "--embedder",
        metavar="NAME",
        help="whose vectors it will get: default, minilm, or MODULE:NAME of your own",
    )
    command.add_argument("--store", metavar="PATH", help="use the embedder of this store")
    command.add_argument("--quiet", action="store_true", help="no progress bar")


def _by_id(verb: _Verb) -> None:
    forget = verb(
        "forget",
        verbs.forget,
        "remove memories; 1 is the exit code if one of them is not there",
        "flashbulb forget 12 17 --store agent.db",
        now=False,
    )
    complete = verb(
        "complete",
        verbs.complete,
        "mark tasks as done",
        "flashbulb complete 12 --store agent.db",
    )
    for command in (forget, complete):
        command.add_argument("id", type=int, nargs="+", metavar="ID", help="as recall shows it")
    reconsolidate = verb(
        "reconsolidate",
        verbs.reconsolidate,
        "let a memory take in what a new context adds; a vivid one keeps its text",
        'flashbulb reconsolidate 12 "The certificate had expired" --store agent.db',
    )
    history = verb(
        "history",
        verbs.history,
        "show the texts that a memory had",
        "flashbulb history 12 --store agent.db",
        now=False,
    )
    for command in (reconsolidate, history):
        command.add_argument("id", type=int, metavar="ID", help="as recall shows it")
    reconsolidate.add_argument(
        "context", metavar="CONTEXT", help="in which it came up; - reads standard input"
    )


def _list(verb: _Verb) -> None:
    command = verb(
        "list",
        verbs.list_memories,
        "show memories in order",
        "flashbulb list --order=-vividness --limit 20 --store agent.db",
    )
    command.add_argument(
        "--limit", type=_count, default=50, metavar="N", help="at most so many (default: 50)"
    )
    command.add_argument("--offset", type=_count, default=0, metavar="N", help="skip so many")
    command.add_argument(
        "--tag", action="append", metavar="TAG", help="only with this tag; repeatable: with all"
    )
    command.add_argument(
        "--status", choices=("open", "completed", "none"), help="of a task; none: no task"
    )
    command.add_argument(
        "--order",
        default="created",
        metavar="BY",
        help="created (default), vividness (effective, as shown: an open task has more), salience, "
        "last_access or access_count; with - before it, as in --order=-created, the highest first",
    )
    _archived(command)


def _tiers(verb: _Verb) -> None:
    command = verb(
        "namespaces",
        verbs.namespaces,
        "list the namespaces of a store and what they hold",
        "flashbulb namespaces --store agents.db",
        namespace=False,
        now=False,
    )
    command.set_defaults(namespace="default")
    command = verb(
        "retention",
        verbs.retention,
        "move to the archive what is idle, faint or too much; never what is pinned, an open task, "
        "a flashbulb or above a floor",
        "flashbulb retention --idle-days 90 --vividness 0.1 --dry-run --store agent.db",
    )
    command.add_argument(
        "--idle-days", type=_days, metavar="N", help="neither remembered nor recalled for N days"
    )
    command.add_argument(
        "--vividness", type=_unit, metavar="0..1", help="fainter than this; with --idle-days: both"
    )
    command.add_argument(
        "--size", type=_count, metavar="N", help="and the faintest, until N memories are left"
    )
    command.add_argument(
        "--keep-floor",
        type=_unit,
        default=0.0,
        metavar="0..1",
        help="never what has a floor above this (default: 0)",
    )
    command.add_argument("--dry-run", action="store_true", help="only show what would move")
    command = verb(
        "restore",
        verbs.restore,
        "bring memories back from the archive",
        "flashbulb restore 12 17 --store agent.db",
        now=False,
    )
    command.add_argument("id", type=int, nargs="+", metavar="ID", help="as recall shows it")


def _replay(verb: _Verb) -> None:
    command = verb(
        "replay",
        verbs.replay_file,
        "feed a CSV file of past events, each at its own time; all of it is checked first",
        "flashbulb replay issues.csv --text-column summary --time-column created --assume-utc "
        "--tags-column section --store agent.db",
        now=False,
    )
    command.add_argument("file", metavar="FILE.csv", help="UTF-8, with a header")
    command.add_argument(
        "--text-column", default="text", metavar="NAME", help="what to remember (default: text)"
    )
    command.add_argument(
        "--time-column",
        metavar="NAME",
        help="when it happened: ISO 8601 or epoch seconds; without it, see --span-days",
    )
    command.add_argument("--tags-column", metavar="NAME", help="tags")
    command.add_argument(
        "--tags-separator", default=";", metavar="TEXT", help="between tags (default: ;)"
    )
    command.add_argument(
        "--urgency-column", metavar="NAME", help="0..1 makes an event an open task; may be empty"
    )
    command.add_argument("--key-column", metavar="NAME", help="kept in the metadata")
    command.add_argument(
        "--metadata-column",
        action="append",
        default=[],
        metavar="NAME",
        help="kept in the metadata too; repeatable",
    )
    command.add_argument(
        "--delimiter", metavar="C", help="between columns (default: comma; tab for .tsv)"
    )
    command.add_argument(
        "--assume-utc", action="store_true", help="read times that have no zone as UTC"
    )
    command.add_argument(
        "--span-days",
        type=_days,
        default=90.0,
        metavar="N",
        help="without --time-column: spread the events evenly over N days (default: 90) ...",
    )
    command.add_argument(
        "--until", metavar="TIME", help="... that end then (default: now), in the file's order"
    )
    command.add_argument("--quiet", action="store_true", help="no progress bar")


def _files(verb: _Verb) -> None:
    export = verb(
        "export",
        verbs.export,
        "write the memories of a namespace to JSON Lines, or to Parquet",
        "flashbulb export agent.jsonl --store agent.db",
        now=False,
    )
    import_ = verb(
        "import",
        verbs.import_,
        "add the memories of an exported file",
        "flashbulb import agent.jsonl --store new.db",
        now=False,
    )
    for transfer in (export, import_):
        transfer.add_argument("file", metavar="FILE", help="JSON Lines, or .parquet")
    import_.add_argument(
        "--new-ids", action="store_true", help="give them the next free ids, not their own"
    )
    command = verb(
        "backup",
        verbs.backup,
        "copy a store, with all its namespaces, while it is in use",
        "flashbulb backup /backups/agent.db --store agent.db",
        namespace=False,
        now=False,
    )
    command.add_argument("copy", metavar="COPY", help="a new file; it is a store too")
    command.add_argument(
        "--overwrite", action="store_true", help="replace what is there, if nobody uses it"
    )


def _checks(verb: _Verb) -> None:
    check = verb(
        "check",
        verbs.check,
        "look whether everything in a store is as it must be; 1 is the exit code if not",
        "flashbulb check agent.db",
        store=False,
        now=False,
    )
    repair = verb(
        "repair",
        verbs.repair,
        "make a sound store of what can be read of a damaged one; 1 if something was lost",
        "flashbulb repair agent.db",
        store=False,
        now=False,
    )
    repair.add_argument(
        "--no-backup",
        dest="backup",
        action="store_false",
        help="do not keep the damaged files beside the store",
    )
    for command in (check, repair):
        command.add_argument("store", metavar="STORE", help="the store's file")
        _timeout(command)


# Types of arguments. argparse shows the message of an ArgumentTypeError, with exit code 2.


def _time(value: str) -> float:
    from flashbulb.replay import parse_time

    try:
        return parse_time(value)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _number(value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if math.isnan(number):
        raise argparse.ArgumentTypeError(f"expected a number, got {value!r}")
    return number


def _unit(value: str) -> float:
    number = _number(value)
    if not 0 <= number <= 1:
        raise argparse.ArgumentTypeError(f"expected a number in [0, 1], got {value!r}")
    return number


def _days(value: str) -> float:
    number = _number(value)
    if not 0 <= number < math.inf:
        raise argparse.ArgumentTypeError(f"expected 0 or more days, got {value!r}")
    return number


def _seconds(value: str) -> float:
    number = _number(value)
    if not number >= 0:
        raise argparse.ArgumentTypeError(f"expected 0 or more seconds, got {value!r}")
    return number


def _count(value: str) -> int:
    try:
        number = int(value)
    except ValueError:
        number = -1
    if number < 0:
        raise argparse.ArgumentTypeError(f"expected a whole number, 0 or more, got {value!r}")
    return number


def _positive(value: str) -> int:
    number = _count(value)
    if number < 1:
        raise argparse.ArgumentTypeError("expected at least 1, got 0")
    return number


def _json_object(value: str) -> dict[str, Any]:
    try:
        parsed = json.loads(value)
    except (ValueError, RecursionError) as error:
        raise argparse.ArgumentTypeError(f"expected a JSON object: {error}") from None
    if not isinstance(parsed, dict):
        raise argparse.ArgumentTypeError(
            f'expected a JSON object like {{"ticket": 17}}, got {value!r:.40}'
        )
    return parsed
