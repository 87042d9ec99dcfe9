"""Runs a plan's measurements on a host that has neither Prefect, DuckDB nor Altair: measure there, aggregate here.

    python -m flows.measurements.suite plan.json out/ [--build FOLDER] [--budget-minutes M] [--deadline-minutes M]

plan.json is the one the flow makes (`paceline plan`). Each measurement runs in a process of its own, one at a time, in the plan's
order; one that fails is tried once more and stops nothing. Run again with the same `out/`, it goes on where it stopped. At the
end all is packed into `out.tar.gz` beside the folder; `paceline ingest out/` takes the records in elsewhere. Without --build the
engine of the current source tree is built first; where the tree is a copy without its git, the plan says which commit it is.
Pairs up to the plan's last look are measured, as far as the budget reaches.

Exit codes: 0 everything is measured; 1 a measurement has no usable record; 2 wrong usage; 3 the budget ended with work left.
"""

import argparse
import logging
import signal
import sys
import tarfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from flows.attempt import Run, attempt
from flows.build import Build, BuildError, build_engine, open_build, source_of
from flows.deadlines import Expectations
from flows.folders import RunFolder
from flows.in_turns import attempt_in_turns
from flows.locks import exclusive, measuring_lock
from flows.plan import Measurement, Pair, Plan, PlanError, missing, read_plan, write_plan
from flows.progress import duration
from flows.settings import SettingsError, load_host
from flows.source import SourceError, find_repo
from storage.records import Record, Source

OK, FAILED, WRONG, CUT = 0, 1, 2, 3
_TRIES = 2
logger = logging.getLogger("paceline")


class SuiteError(ValueError):
    """A suite that cannot be run as asked. The message names the file or the option."""


@dataclass(frozen=True)
class Options:
    """The command line."""

    plan: Path
    out: Path
    build: Path | None
    budget_s: float
    deadline_s: float


@dataclass(frozen=True)
class Report:
    """What became of the plan, over this run and those before it. Counts of measurements."""

    measured: int
    unusable: int  # tried, and without a usable record
    left: int  # not tried, because the budget ended
    archive: Path

    @property
    def exit_code(self) -> int:
        """See the module's text."""
        if self.left:
            return CUT
        return FAILED if self.unusable else OK


def run_suite(options: Options) -> Report:
    """Measure what the plan still lacks, within the budget; then pack. Raises SuiteError, PlanError, BuildError."""
    plan = read_plan(options.plan)
    root = options.out.absolute()
    folder = RunFolder(root.parent, root.name)
    build, source = _find_build(plan, options, folder)
    _open_folder(plan, folder)
    run = Run(folder, build, source, Expectations(longest_s=options.deadline_s))
    run.expectations.recall(folder.read_records())
    pairs = [pair for block in plan.blocks for pair in block.pairs]
    done = folder.measured()
    _measure_alone([check for check in plan.checks if check.name not in done], run)
    cut = _measure(missing(pairs, done), run, time.monotonic() + options.budget_s, in_turns=plan.parameters.in_turns)
    others = [other for other in plan.others if other.name not in done]
    if cut:
        cut += len(others)
    else:
        _measure_alone(others, run)
    names = {measurement.name for measurement in plan.measurements()}
    measured = len(names & _usable(folder))
    return Report(measured, len(names) - measured - cut, cut, pack(folder.root))


def pack(root: Path) -> Path:
    """Write `<root>.tar.gz` beside the folder, whole or not at all; returns its path."""
    archive = root.with_name(f"{root.name}.tar.gz")
    temporary = root.with_name(f".{archive.name}.tmp")
    with tarfile.open(temporary, "w:gz") as file:
        file.add(root, arcname=root.name)
    temporary.replace(archive)
    return archive


def _measure(pairs: Sequence[Pair], run: Run, end: float, *, in_turns: bool) -> int:
    """Measure pair by pair until the monotonic instant `end`; returns how many measurements were not begun."""
    for position, pair in enumerate(pairs):
        expected = sum(run.expectations.expected_s(measurement.spec) for measurement in pair.measurements)
        if expected > end - time.monotonic():
            waiting = {m.name for later in pairs[position:] for m in later.measurements} - _usable(run.folder)
            logger.info("the budget ends: the next pair takes %s; %d measurements are left", duration(expected), len(waiting))
            return len(waiting)
        logger.info("pair %d of %d that are missing", position + 1, len(pairs))
        with exclusive(measuring_lock(), lambda: logger.info("waiting: another measurement runs on this machine")):
            if in_turns:
                _try_in_turns(pair, run)
            else:
                for measurement in pair.measurements:  # both legs: a pair is one right after the other
                    _try(measurement, run)
    return 0


def _measure_alone(measurements: Sequence[Measurement], run: Run) -> None:
    for measurement in measurements:
        with exclusive(measuring_lock(), lambda: logger.info("waiting: another measurement runs on this machine")):
            _try(measurement, run)


def _try(measurement: Measurement, run: Run) -> Record:
    for _ in range(_TRIES):
        record = attempt(measurement, run)
        if record.status in ("ok", "invalid"):
            break
    return record


def _try_in_turns(pair: Pair, run: Run) -> None:
    for _ in range(_TRIES):
        records = attempt_in_turns(pair.measurements, (run, run))
        if all(record.status == "ok" for record in records):
            break


def _usable(folder: RunFolder) -> set[str]:
    return {record.measurement for record in folder.read_records() if record.status in ("ok", "invalid")}


def _open_folder(plan: Plan, folder: RunFolder) -> None:
    """Make the run's folder, or find it. Raises SuiteError where it holds another plan's measurements."""
    if folder.plan.exists():
        before = read_plan(folder.plan)
        if before.identity != plan.identity:
            raise SuiteError(f"{folder.plan}: another plan, {before.identity} where {plan.identity} was given: name another out/")
    folder.create()
    write_plan(plan, folder.plan)


def _find_build(plan: Plan, options: Options, folder: RunFolder) -> tuple[Build, Source]:
    """The build given, or one made here. Raises SuiteError where it is not the one that was planned."""
    if options.build:
        build = open_build(options.build)
        source = source_of(build)
    else:
        host = load_host()
        build, source = build_engine(find_repo(host.repo), host, folder.logs / "build.log")
    if source.tree != plan.tree:
        raise SuiteError(
            f"{options.plan}: planned for engine sources {plan.tree[:12]}, but {build.folder} is of {source.tree[:12]}"
        )
    return build, plan.source if plan.source is not None and source.commit == "unknown" else source


def parse(argv: Sequence[str]) -> Options:
    """The command line. Exits with 2 on wrong usage, as argparse does."""
    parser = argparse.ArgumentParser(prog="flows.measurements.suite", description="Run a plan's measurements; resume; pack.")
    parser.add_argument("plan", type=Path, help="plan.json")
    parser.add_argument("out", type=Path, help="folder of the run; an earlier one is resumed")
    parser.add_argument("--build", type=Path, help="build folder of the engine; left out: build the current source tree")
    parser.add_argument("--budget-minutes", type=_positive, default=1e6, help="begin no pair that would end later than this")
    parser.add_argument("--deadline-minutes", type=_positive, default=10.0, help="longest time for the first measurement")
    given = parser.parse_args(argv)
    return Options(given.plan, given.out, given.build, 60 * given.budget_minutes, 60 * given.deadline_minutes)


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    options = parse(sys.argv[1:] if argv is None else argv)
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout, force=True)
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        report = run_suite(options)
    except (SuiteError, PlanError, BuildError, SourceError, SettingsError) as error:
        print(f"paceline: {error}", file=sys.stderr)
        return WRONG
    except KeyboardInterrupt:
        print(f"paceline: interrupted; the same command goes on where this stopped: {options.out}", file=sys.stderr)
        return 130
    print(f"measured {report.measured}, without a usable record {report.unusable}, left {report.left}; {report.archive}")
    return report.exit_code


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value <= 1e6:
        raise argparse.ArgumentTypeError(f"found {text}: must be above 0, in minutes")
    return value


if __name__ == "__main__":
    sys.exit(main())
