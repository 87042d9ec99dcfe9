"""A night on a commit that is decided already: the machine probe and the A/A canary, which still watch the machine.

The canary measures one build against itself, at the highest level in batch mode and at level 1 in serial mode.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from flows.aggregate import canary_of, keep_records
from flows.attempt import Run
from flows.folders import RunFolder
from flows.locks import exclusive, measuring_lock
from flows.measure import measure
from flows.parameters import ValidationParameters
from flows.plan import ARMS, Measurement, canary_arm, measurement_of, watched_legs
from flows.progress import report
from flows.verdicts.canary import Canary
from storage.records import Record

PAIRS = 3


@dataclass(frozen=True)
class Watched:
    """What such a night saw."""

    canary: Canary
    bandwidth: float | None  # bytes/s that the cores read together; None where the probe failed
    fingerprint: str | None  # of the machine, as records have it


def watch(parameters: ValidationParameters, run: Run) -> Watched:
    """Probe the machine, then measure the canary's pairs; records go into the store. A failed process stops nothing."""
    with exclusive(measuring_lock(), lambda: report().note("waiting: another measurement is running on this machine")):
        planned = [probe_of(parameters), *canary_plan(parameters)]
        report().remaining(0, len(planned), sum(run.expectations.expected_s(item.spec) for item in planned))
        probe, *seen = [_record(item, run) for item in planned]
    for reason in keep_records(run.folder):
        report().note(f"set aside: {reason}")
    environments = [record.environment for record in seen if record is not None and record.environment is not None]
    bandwidth = probe.values.get("read_bandwidth_bytes_per_s") if probe else None
    fingerprint = environments[0].fingerprint if environments else None
    return Watched(canary_of(run.folder.snapshot, run.folder.run_id), bandwidth, fingerprint)


def probe_of(parameters: ValidationParameters) -> Measurement:
    """The machine probe as a measurement."""
    spec = measurement_of(parameters, 0, 1, "serial", 0).spec.model_copy(update={"kind": "machine", "devices": "cpu"})
    return Measurement(name=f"{parameters.workload}/machine", label="machine probe", spec=spec)


def canary_plan(parameters: ValidationParameters) -> Iterator[Measurement]:
    """Arms a and b of every pair, one right after the other, in an order that follows from the seed."""
    order = 0
    draw = random.Random(parameters.seed)  # noqa: S311  # an order, not a secret
    for pair in range(1, PAIRS + 1):
        for leg in watched_legs(parameters):
            for arm in draw.sample(ARMS, len(ARMS)):
                order += 1
                yield canary_arm(parameters, pair, leg, arm, order)


def known_fingerprints(folder: RunFolder) -> set[str]:
    """Machines on which a run was measured."""
    return {record.environment.fingerprint for record in folder.read_records() if record.environment is not None}


def decided_run(results: Path, identity: str) -> str | None:
    """The newest run of this plan (commit and parameters) of which every target is PASS or FAIL; None where there is none."""
    import json

    for path in sorted(results.glob("*/summary.json"), reverse=True):
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except ValueError:  # not one of ours, or cut short by hand
            continue
        if found.get("plan") == identity and found.get("exit_code") in (0, 1):
            return path.parent.name
    return None


def _record(measurement: Measurement, run: Run) -> Record | None:
    outcome = measure(measurement, run, return_state=True).result(raise_on_failure=False)
    return outcome if isinstance(outcome, Record) else None
