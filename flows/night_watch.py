"""A night on a commit that is decided already: the machine probe and the A/A canary, which still watch the machine.

The canary measures one build against itself, at the highest level in batch mode and at level 1 in serial mode.
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from flows.aggregate import canary_of, reconcile
from flows.attempt import Run
from flows.folders import RunFolder, new_run_id
from flows.locks import exclusive, measuring_lock
from flows.measure import measure
from flows.parameters import ValidationParameters
from flows.plan import Block, Measurement, Plan, canary_pair, measurement_of, missing, plan_identity, watched_legs, write_plan
from flows.progress import report
from flows.resume import unfinished_run
from flows.verdicts.canary import Canary

PAIRS = 3


@dataclass(frozen=True)
class Watched:
    """What such a night saw."""

    canary: Canary
    bandwidth: float | None  # bytes/s that the cores read together; None where the probe failed
    fingerprint: str | None  # of the machine, as records have it


def watch_plan(parameters: ValidationParameters, tree: str) -> Plan:
    """The canary's pairs as a plan without looks: nothing is judged on it. The probe goes before them."""
    legs = watched_legs(parameters)
    return Plan(
        identity=hashlib.sha256(f"watch\0{PAIRS}\0{plan_identity(parameters, tree)}".encode()).hexdigest()[:16],
        tree=tree,
        parameters=parameters,
        stages=(),
        blocks=tuple(
            Block(
                block=number,
                pairs=tuple(
                    canary_pair(parameters, number, leg, 1 + 2 * ((number - 1) * len(legs) + place))
                    for place, leg in enumerate(legs)
                ),
            )
            for number in range(1, PAIRS + 1)
        ),
    )


def lay_out(plan: Plan) -> RunFolder:
    """The folder of the interrupted night of this plan, else a new one. What others left behind goes into the store."""
    results = Path(plan.parameters.results)
    interrupted = unfinished_run(results, plan.identity)
    folder = RunFolder(results, interrupted or new_run_id())
    folder.create()
    for reason in reconcile(folder):
        report().note(f"set aside: {reason}")
    if interrupted is None:
        write_plan(plan, folder.plan)
    else:
        report().note(f"run {interrupted} of this canary was interrupted: it is taken up")
    return folder


def watch(plan: Plan, run: Run) -> None:
    """Probe the machine, then measure the canary's pairs, less what is measured already. A failed process stops nothing."""
    todo = left_to_do(plan, run.folder)
    total = 1 + len(list(plan.measurements()))
    with exclusive(measuring_lock(), lambda: report().note("waiting: another measurement is running on this machine")):
        for place, measurement in enumerate(todo):
            left_s = sum(run.expectations.expected_s(item.spec) for item in todo[place:])
            report().remaining(total - len(todo) + place, total, left_s)
            measure(measurement, run, return_state=True)


def left_to_do(plan: Plan, folder: RunFolder) -> list[Measurement]:
    """The probe and the pairs that have no usable record; a pair of which one arm was cut is measured as a pair again."""
    done = folder.measured()
    probe = probe_of(plan.parameters)
    pairs = [measurement for pair in missing(plan.pairs(), done) for measurement in pair.measurements]
    return pairs if probe.name in done else [probe, *pairs]


def seen_in(folder: RunFolder) -> Watched:
    """What the records of such a night show, once they are in the store."""
    good = [record for record in folder.read_records() if record.status == "ok"]
    bandwidth = next((record.values.get("read_bandwidth_bytes_per_s") for record in good if record.spec.kind == "machine"), None)
    machines = [
        record.environment.fingerprint for record in good if record.spec.kind == "canary" and record.environment is not None
    ]
    return Watched(canary_of(folder.snapshot, folder.run_id), bandwidth, next(iter(machines), None))


def close(plan: Plan, folder: RunFolder, decided: str, found: str) -> None:
    """Write the summary, by which the night counts as ended. It has no exit code: nothing was judged."""
    content = {"run": folder.run_id, "plan": plan.identity, "decided_by": decided, "headline": found}
    temporary = folder.summary_json.with_name(f".{folder.summary_json.name}.tmp")
    temporary.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    temporary.replace(folder.summary_json)


def probe_of(parameters: ValidationParameters) -> Measurement:
    """The machine probe as a measurement."""
    spec = measurement_of(parameters, 0, 1, "serial", 0).spec.model_copy(update={"kind": "machine", "devices": "cpu"})
    return Measurement(name=f"{parameters.workload}/machine", label="machine probe", spec=spec)


def known_fingerprints(folder: RunFolder) -> set[str]:
    """Machines on which a run was measured."""
    return {record.environment.fingerprint for record in folder.read_records() if record.environment is not None}


def decided_run(results: Path, identity: str) -> str | None:
    """The newest run of this plan (commit and parameters) of which every target is PASS or FAIL; None where there is none."""
    for path in sorted(results.glob("*/summary.json"), reverse=True):
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except ValueError:  # not one of ours, or cut short by hand
            continue
        if found.get("plan") == identity and found.get("exit_code") in (0, 1):
            return path.parent.name
    return None
