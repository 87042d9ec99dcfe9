"""A measurement again: the same specification in the same sources' build, as it is or under a profiler."""

import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from flows.attempt import Run, attempt
from flows.build import Build, BuildError, build_commit, build_engine, open_build, source_of
from flows.deadlines import Expectations
from flows.folders import RunFolder, new_run_id
from flows.locks import exclusive, measuring_lock
from flows.measurements.child import run_supervised
from flows.measurements.request import Request, dump_request
from flows.plan import Measurement
from flows.progress import report
from flows.settings import HostSettings, harness_environment, use_host
from flows.source import describe_source, find_repo
from storage.errors import StoreError
from storage.records import Record, load

PROFILERS = ("perf", "py-spy", "ncu")
_DEADLINE_S = 1800.0


class ProfilerMissing(StoreError):
    """None of the profilers that would do is installed. Names them."""


@dataclass(frozen=True)
class Profile:
    """Where a profiler left what it saw, and the command that shows it."""

    profiler: str
    file: Path
    show: str


def find_record(results: Path, given: str) -> Record:
    """A record by its file, or by the beginning of its id in the store. Raises RecordError, StoreError."""
    if Path(given).is_file():
        return load(Path(given))
    from storage.queries import record

    row = record(results, given)
    source = Path(row["source_file"])
    path = source if source.is_absolute() else (results if results.is_dir() else results.parent) / source
    if not path.is_file():
        raise StoreError(f"record {row['record_id'][:12]}: its file {path} is gone; copy it back, or name a record file")
    return load(path)


def build_for(record: Record, host: HostSettings, log: Path) -> Build:
    """A build of the record's own sources: the one named, a kept one, or one made from its commit or from the tree as it stands.

    Raises BuildError where those sources are not to be had.
    """
    if host.build is not None:
        return open_build(host.build)
    tree = record.source.tree
    for description in sorted((host.cache / "builds").glob("*/build.json")):
        build = open_build(description.parent)
        if build.info["tree"] == tree:
            return build
    repo = find_repo(host.repo)
    if describe_source(repo).tree == tree:
        return build_engine(repo, host, log)[0]
    if not record.source.dirty and record.source.commit != "unknown":
        return build_commit(repo, record.source.commit, host, log)[0]
    raise BuildError(
        f"record {record.record_id[:12]} was measured on sources with uncommitted changes ({tree[:10]}) that are not kept; "
        "name a build to replay it on: --build FOLDER"
    )


def replay(record: Record, results: Path, host: HostSettings) -> tuple[Record, RunFolder]:
    """Measure the record's specification once more, in a run folder of its own. Raises BuildError, SourceError."""
    folder, build = _prepare(record, results, host)
    run = Run(folder, build, source_of(build), Expectations(longest_s=_DEADLINE_S))
    again = Measurement(name=record.measurement, label=f"replay of {record.measurement}", spec=record.spec)
    waiting = "waiting: another measurement is running on this machine"
    with use_host(host), exclusive(measuring_lock(), lambda: report().note(waiting)):
        return attempt(again, run), folder


def profile(record: Record, results: Path, host: HostSettings, wanted: str | None) -> Profile:
    """Run the record's specification under a profiler. Raises ProfilerMissing, BuildError, StoreError where it failed."""
    profiler = find_profiler(record, wanted)
    folder, build = _prepare(record, results, host)
    stem = record.measurement.replace("/", ".")
    request, result = folder.requests / f"{stem}.json", folder.root / f"{stem}.profiled.json"
    asked = Request(
        run_id=folder.run_id,
        measurement=record.measurement,
        spec=record.spec,
        build=build.folder,
        source=source_of(build),
        cache=host.cache,
    )
    dump_request(asked, request)
    program = [sys.executable, "-P", "-m", f"flows.measurements.{record.spec.kind}", str(request), str(result)]
    made, command = _command(profiler, folder.root / stem, program)
    log = folder.logs / f"{stem}.{profiler}.log"
    outcome = run_supervised(command, log, _DEADLINE_S, env=harness_environment())
    if not outcome.ok or not made.file.exists():
        tail = log.read_text(encoding="utf-8", errors="replace").splitlines()[-5:]
        raise StoreError("\n".join([f"{profiler}: {outcome.describe()}, and no profile came of it", *tail, f"log: {log}"]))
    return made


def find_profiler(record: Record, wanted: str | None) -> str:
    """The profiler to use: the one wanted; ncu for GPU records; perf; py-spy. Raises ProfilerMissing."""
    on_gpu = record.spec.devices != "cpu"
    fitting = [wanted] if wanted else [name for name in ("ncu", "perf", "py-spy") if on_gpu or name != "ncu"]
    found = next((name for name in fitting if shutil.which(name)), None)
    if found is None:
        raise ProfilerMissing(
            f"no profiler here: {', '.join(fitting)} not found in PATH. perf comes with the distribution (linux-perf, "
            f"linux-tools), py-spy with `{sys.executable} -m pip install py-spy`, ncu with the CUDA toolkit"
        )
    return found


def _command(profiler: str, stem: Path, program: Sequence[str]) -> tuple[Profile, list[str]]:
    match profiler:
        case "perf":
            file = stem.with_name(f"{stem.name}.perf.data")
            options = ["record", "-g", "--call-graph", "fp", "-o", str(file), "--"]
            return Profile(profiler, file, f"perf report -i '{file}'"), ["perf", *options, *program]
        case "py-spy":
            file = stem.with_name(f"{stem.name}.svg")
            options = ["record", "--native", "--threads", "-o", str(file), "--"]
            return Profile(profiler, file, f"open '{file}' in a browser"), ["py-spy", *options, *program]
        case _:
            file = stem.with_name(f"{stem.name}.ncu-rep")
            options = ["--set", "full", "--target-processes", "all", "-o", str(file.with_suffix(""))]
            return Profile(profiler, file, f"ncu-ui '{file}'"), ["ncu", *options, *program]


def _prepare(record: Record, results: Path, host: HostSettings) -> tuple[RunFolder, Build]:
    root = results.absolute() if results.is_dir() or not results.exists() else results.absolute().parent
    folder = RunFolder(root / "replays", new_run_id())  # beside the runs: a replay joins no series
    folder.create()
    return folder, build_for(record, host, folder.logs / "build.log")
