"""How a command runs a measurement program: in this terminal, in a process of its own, with the engine it is to use."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flows.settings import HostSettings


def build_folder(host: "HostSettings") -> Path:
    """The build that the settings name, else that of their source tree. Raises BuildError, SourceError."""
    from flows.build import build_asked

    return build_asked(host, host.cache / "builds" / "last.log")[0].folder


def run_program(name: str, arguments: Sequence[object]) -> int:
    """Run flows.measurements.<name>; returns its exit code."""
    from flows.settings import harness_environment

    command = [sys.executable, "-P", "-m", f"flows.measurements.{name}", *map(str, arguments)]
    return subprocess.run(command, env=harness_environment(), check=False).returncode
