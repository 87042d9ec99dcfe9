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


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(doctor)


@with_fields(HostSettings, leave_out=("build", "targets", "build_minutes"))
def doctor(given: dict[str, Any]) -> None:
    """Check compiler, build tools, CPU paths, memory and folders. Exit code 2 when something needed is missing."""
    from flows.settings import load_host

    with told():
        host = load_host(given)
    findings = list(examine(host))
    for finding in findings:
        print(f"{'ok     ' if finding.good else 'MISSING'} {finding.what:<12} {finding.seen}")
    sys.exit(0 if all(finding.good for finding in findings) else 2)


def examine(host: HostSettings) -> Iterator[Finding]:
    """Look at everything a validation on the CPU needs."""
    yield from _tools(host)
    yield _cpu()
    yield _memory()
    for what, folder in (("cache", host.cache), ("results", Path("results").absolute())):
        yield _folder(what, folder)


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
