"""The gate on instruction counts: what each scenario costs, against a committed baseline.

    python benchmarks/instructions.py            # counts and compares; 1 if something grew
    python benchmarks/instructions.py --update   # counts and writes the baseline

Times differ from run to run and machine to machine; the number of instructions does not, so it can
gate where times cannot. callgrind counts those of ``benchmarks/cpp/instructions.cpp`` at level v3
(valgrind knows no AVX-512). It does not see the cost of memory: beside it stand the benchmarks.

The counts belong to a compiler and a C library. Built with others than the baseline was, nothing
is compared, and the command says so; ``--update`` then makes a baseline for those.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
DRIVER = ROOT / "build" / "bench" / "benchmarks" / "cpp" / "flashbulb_instructions"
BASELINE = Path(__file__).resolve().parent / "cpp" / "instructions.json"
TOLERANCE = 0.05
LEVEL = "v3"


class Change(NamedTuple):
    """A scenario's instructions before and now; None: there is none."""

    name: str
    before: int | None
    now: int | None

    @property
    def ratio(self) -> float:
        return self.now / self.before if self.now and self.before else float("nan")

    def fails(self, tolerance: float = TOLERANCE) -> bool:
        """Whether it grew beyond the tolerance, or there is nothing to compare with."""
        return self.before is None or self.now is None or self.ratio > 1.0 + tolerance

    def describe(self, tolerance: float = TOLERANCE) -> str:
        if self.before is None or self.now is None:
            what = "is not in the baseline" if self.before is None else "was not counted"
        elif self.fails(tolerance):
            what = f"GREW by {self.ratio - 1:.1%}, more than {tolerance:.0%}"
        elif self.ratio < 1.0 - tolerance:
            what = f"fell by {1 - self.ratio:.1%}: take it into the baseline with --update"
        else:
            what = f"{self.ratio - 1:+.1%}"
        before = "—" if self.before is None else f"{self.before:,}"
        now = "—" if self.now is None else f"{self.now:,}"
        return f"{self.name:<20} {before:>14} {now:>14}  {what}"


def compare(before: dict[str, int], now: dict[str, int]) -> list[Change]:
    """Every scenario of the baseline and of this run, in the order of this run."""
    names = [*now, *(name for name in before if name not in now)]
    return [Change(name, before.get(name), now.get(name)) for name in names]


def parse_dump(text: str) -> tuple[str, int] | None:
    """Scenario and instructions of one dump of callgrind; None for the one at the end."""
    trigger = re.search(r"^desc: Trigger: --dump-after=(\w+)", text, re.MULTILINE)
    total = re.search(r"^summary: (\d+)", text, re.MULTILINE)
    if trigger is None or total is None:
        return None
    return trigger[1].removeprefix("scenario_"), int(total[1])


def about(driver: Path) -> tuple[list[str], dict[str, str]]:
    """The scenarios of a driver, and what their counts depend on."""
    lines = _run([str(driver), "--about"]).splitlines()
    pairs = [line.split(" ", 1) for line in lines]
    built = {key: value for key, value in pairs if key != "scenario"}
    built["library"] = " ".join(platform.libc_ver())
    built["machine"] = platform.machine()
    return [value for key, value in pairs if key == "scenario"], built


def count(driver: Path, scenarios: list[str]) -> dict[str, int]:
    """Instructions of each scenario."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["valgrind", "--quiet", "--tool=callgrind"]
        command.append(f"--callgrind-out-file={folder}/callgrind")
        for name in scenarios:
            command += [f"--zero-before={name}", f"--dump-after={name}"]
        _run([*command, str(driver)])
        dumps = sorted(Path(folder).glob("callgrind.*"), key=lambda path: int(path.suffix[1:]))
        counted = [found for path in dumps if (found := parse_dump(path.read_text()))]
    if len(counted) != len(scenarios):
        raise SystemExit(f"expected one dump for each of {scenarios}, got {counted}")
    return dict(counted)


def _run(command: list[str]) -> str:
    environment = {**os.environ, "FLASHBULB_SIMD_LEVEL": LEVEL}
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise SystemExit(f"{command[0]} is not installed") from None
    if done.returncode:
        raise SystemExit(f"{command[-1]} failed with {done.returncode}:\n{done.stderr}")
    return done.stdout


def judge(
    baseline: dict[str, Any], built: dict[str, str], counts: dict[str, int]
) -> tuple[list[str], bool]:
    """What is to be said, and whether the gate lets it pass."""
    expected = {name: baseline.get(name) for name in built}
    if expected != built:
        return [
            f"SKIPPED: the baseline is for {expected}, this build is {built}; see --update"
        ], True
    changes = compare(baseline["instructions"], counts)
    lines = [f"{'scenario':<20} {'baseline':>14} {'now':>14}"]
    lines += [change.describe() for change in changes]
    return lines, not any(change.fails() for change in changes)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--update", action="store_true", help="write the baseline")
    parser.add_argument("--driver", type=Path, default=DRIVER)
    parser.add_argument("--baseline", type=Path, default=BASELINE)
    options = parser.parse_args()
    if platform.machine() != "x86_64":
        print(f"SKIPPED: level {LEVEL} is for x86-64, this machine is {platform.machine()}")
        return 0
    if not options.driver.exists():
        raise SystemExit(f"no driver at {options.driver}: build it with .ci/run callgrind")
    scenarios, built = about(options.driver)
    counts = count(options.driver, scenarios)
    if options.update:
        options.baseline.write_text(json.dumps({**built, "instructions": counts}, indent=2) + "\n")
        print(f"wrote {options.baseline}")
        return 0
    lines, passes = judge(json.loads(options.baseline.read_text()), built, counts)
    print("\n".join(lines))
    return int(not passes)


if __name__ == "__main__":
    raise SystemExit(main())
