"""paceline doctor: what works on this machine, what is missing, and the command that mends it."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from flows.cli.errors import told
from flows.cli.options import with_fields
from flows.settings import HostSettings


@dataclass(frozen=True)
class Finding:
    """One line of the doctor: what was looked at, whether it will do, what was seen or what mends it."""

    what: str
    good: bool
    seen: str
    needed: bool = True


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(doctor)


@with_fields(HostSettings, leave_out=("build", "commit", "targets", "build_minutes"))
def doctor(given: dict[str, Any]) -> None:
    """Check what a validation and the nightly need here, and name the command that mends what is missing.

    Exit code 2 where something needed is missing; what would only disturb a measurement is told and changes no exit code.
    """
    from flows.settings import load_host

    with told():
        host = load_host(given)
    findings = list(examine(host))
    for finding in findings:
        word = "ok     " if finding.good else "MISSING" if finding.needed else "note   "
        print(f"{word} {finding.what:<12} {finding.seen}")
    sys.exit(0 if all(finding.good or not finding.needed for finding in findings) else 2)


def examine(host: HostSettings) -> Iterator[Finding]:
    """Look at everything a validation on the CPU and the nightly need."""
    yield from _tools(host)
    yield _sources(host)
    yield from _files(host)
    yield _cpu()
    yield _gpu()
    yield _memory()
    for what, folder in (("cache", host.cache), ("results", Path("results").absolute())):
        yield _folder(what, folder)
    yield _quiet()
    yield from _service()


def _sources(host: HostSettings) -> Finding:
    from flows.source import SourceError, describe_source, find_repo

    try:
        source = describe_source(find_repo(host.repo))
    except SourceError as error:
        return Finding("sources", False, str(error))
    if source.commit == "unknown":
        seen = "no git repository: runs have no place in the trend; git clone the sources to give them one"
        return Finding("sources", False, seen, needed=False)
    return Finding("sources", True, f"commit {source.commit[:10]}{' with uncommitted changes' if source.dirty else ''}")


def _files(host: HostSettings) -> Iterator[Finding]:
    """What a validation started here would be told to do: paceline.toml, its variables, the targets."""
    from flows.settings import SettingsError, load_parameters
    from flows.verdicts.targets import TargetError, load_targets

    try:
        asked = load_parameters({})
    except SettingsError as error:
        yield Finding("settings", False, str(error))
    else:
        yield Finding("settings", True, f"{asked.checkpoint}, tp {asked.tp}, on {asked.devices}")
    try:
        targets = load_targets(host.targets)
    except TargetError as error:
        yield Finding("targets", False, str(error))
    else:
        yield Finding("targets", True, f"{host.targets or 'built in'}: {len(targets)}")


def _gpu() -> Finding:
    from flows.measurements.nvml import TelemetryError, open_gpus

    try:
        gpus = open_gpus("cuda:0")
    except TelemetryError as error:
        seen = f"none to be used ({str(error).partition(': ')[2]}); measuring on the CPU needs none"
        return Finding("gpu", False, f"{seen}. With one: {sys.executable} -m pip install nvidia-ml-py", needed=False)
    if gpus is None:
        return Finding("gpu", False, "none", needed=False)
    facts = gpus.facts()
    gpus.close()
    return Finding("gpu", True, f"{facts['gpus'][0]}, driver {facts['driver']}")


def _quiet() -> Finding:
    """What would disturb a measurement now."""
    from flows.parameters import ValidationParameters
    from flows.preflight import look

    disturbs = [finding.text for finding in look(ValidationParameters(), []) if not finding.fatal]
    return Finding("quiet", not disturbs, "; ".join(disturbs) or "nothing disturbs a measurement now", needed=False)


def _service() -> Iterator[Finding]:
    """What `paceline up` needs: a port, a plan file that can be read, settings that hold."""
    from flows.night_plan import NightPlanError, read_night
    from flows.server import ServerError, check_api
    from flows.settings import SettingsError, prefect_api_url
    from flows.up import UpError, port_is_free, refuse_open_door
    from flows.up_settings import load_up

    try:
        settings = load_up()
    except SettingsError as error:
        yield Finding("up", False, str(error))
        return
    try:
        refuse_open_door(settings)
    except UpError as error:
        yield Finding("address", False, str(error))
    if joined := prefect_api_url():
        try:
            check_api(joined)
        except ServerError as error:
            yield Finding("prefect", False, str(error))
        else:
            yield Finding("prefect", True, f"PREFECT_API_URL={joined} answers and is joined")
    elif port_is_free(settings.address, settings.port):
        yield Finding("prefect", True, f"port {settings.port} on {settings.address} is free for paceline up")
    else:
        seen = f"port {settings.port} on {settings.address} is taken: by paceline up, or choose another with --port"
        yield Finding("prefect", False, seen, needed=False)
    try:
        entries = read_night(settings.plan)
    except NightPlanError as error:
        yield Finding("plan file", False, str(error))
    else:
        minutes = sum(entry.parameters.budget_minutes for entry in entries)
        where = settings.plan or "none, so the default"
        yield Finding("plan file", True, f"{where}: {len(entries)} to measure, {minutes:g} minutes at most")


def _tools(host: HostSettings) -> Iterator[Finding]:
    from flows.build import BuildError, find_compiler, find_tool

    for what in ("compiler", "cmake", "ninja"):
        try:
            found = find_compiler(host.compiler) if what == "compiler" else find_tool(what)
        except BuildError as error:
            yield Finding(what, False, str(error))
        else:
            yield Finding(what, True, str(found))


def _cpu() -> Finding:
    """Kernel paths by the flags that Linux reports; the engine itself decides at run time."""
    import os

    known = {"amx": "amx_bf16", "avx512_bf16": "avx512_bf16", "avx512": "avx512f", "avx2": "avx2"}
    text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    line = next((line for line in text.splitlines() if line.startswith("flags")), "")
    paths = [path for path, flag in known.items() if flag in line.split()]
    return Finding("cpu", True, f"{len(os.sched_getaffinity(0))} cores; kernel paths: {', '.join([*paths, 'portable'])}")


def _memory() -> Finding:
    import psutil

    available = psutil.virtual_memory().available / 2**30
    enough = available >= 2
    return Finding(
        "memory", enough, f"{available:.1f} GiB available" + ("" if enough else "; synthetic:small needs 2 GiB: end what uses it")
    )


def _folder(what: str, folder: Path) -> Finding:
    import os
    import shutil

    existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
    free = shutil.disk_usage(existing).free / 2**30
    if not os.access(existing, os.W_OK):
        return Finding(what, False, f"{folder}: not writable; make it writable or name another folder")
    if free < 2:
        return Finding(what, False, f"{folder}: {free:.1f} GiB free; 2 GiB are needed")
    return Finding(what, True, f"{folder}: {free:.0f} GiB free")
