"""Refuses a checkpoint that cannot be measured before anything starts: one message, not four failed measurements.

The engine's own Python side judges, in a process of its own, from config and headers (flows/measurements/admit.py).
"""

import subprocess
import sys
from pathlib import Path

from flows.build import open_build
from flows.parameters import ValidationParameters
from flows.plan import measurement_of
from flows.progress import report
from flows.settings import HostSettings, SettingsError, harness_environment
from flows.source import find_repo
from flows.verdicts.targets import load_targets

_TIMEOUT_S = 120.0  # headers of a large checkpoint on a slow disk
_WRONG = 2


def refuse_unfit(parameters: ValidationParameters, host: HostSettings) -> None:
    """Return when the engine under test can serve the checkpoint as asked, or cannot tell beforehand, which is said.

    Targets that cannot be judged are refused with it. Raises SettingsError with the engine's reason, SourceError, BuildError,
    TargetError.
    """
    load_targets(host.targets)
    refuse_unfit_for(open_build(host.build).folder if host.build else find_repo(host.repo), parameters)


def refuse_unfit_for(engine: Path, parameters: ValidationParameters) -> None:
    """The same for an engine by its folder: a source tree or a build. Raises SettingsError."""
    spec = measurement_of(parameters, 0, max(parameters.levels), "batch", 0).spec  # the most slots
    command = [sys.executable, "-P", "-m", "flows.measurements.admit", "--engine", str(engine), "--devices", spec.devices]
    command += ["--checkpoint", spec.checkpoint, "--tp", str(spec.tp), "--slots", str(spec.slots), "--context", str(spec.context)]
    command += ["--engines", "2" if parameters.in_turns else "1"]
    try:
        ended = subprocess.run(
            command, env=harness_environment(), capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise SettingsError(
            f"--checkpoint {spec.checkpoint}: its headers were not read within {_TIMEOUT_S:.0f} s: is the disk there?"
        ) from error
    if ended.returncode == _WRONG:
        raise SettingsError(f"--checkpoint {spec.checkpoint} cannot be measured: {ended.stderr.strip()}")
    if ended.returncode:
        raise SettingsError(
            f"--checkpoint {spec.checkpoint}: looking at it ended with exit code {ended.returncode}:\n{ended.stderr}"
        )
    if note := ended.stderr.strip():
        report().note(note)
