"""What a run found, as one JSON file that can be compared from run to run, and as text."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from flows.build import Build
from flows.folders import RunFolder
from flows.history import describe_alert
from flows.parameters import KINDS
from flows.plan import Plan
from flows.verdicts.judge import BEYOND, Verdict, too_wide
from flows.verdicts.overall import overall
from flows.verdicts.targets import quantity
from storage.figures import SHOWN
from storage.records import Source

SUMMARY_VERSION = 1
_VERDICT_FIELDS = (
    "status",
    "ratio",
    "low",
    "high",
    "confidence",
    "mde",
    "pairs",
    "point",
    "reason",
    "flags",
    "excluded",
    "waived",
    "change",
    "hints",
)


@dataclass
class Course:
    """How the measuring went. Times are UTC."""

    started_at: datetime
    finished_at: datetime | None = None
    notes: list[str] = field(default_factory=list)  # what a reader must know: cut by the budget, files set aside
    alerts: list[dict[str, Any]] = field(default_factory=list)  # changes of the trend that this run is the first to show


def summarise(
    folder: RunFolder, plan: Plan, build: Build, source: Source, verdicts: Sequence[Verdict], course: Course
) -> dict[str, Any]:
    """The content of summary.json: strict JSON, keys in a fixed order, times and places last."""
    from storage.queries import level_table, target_ratios

    found = overall(verdicts)
    ratios = _ratios(target_ratios(folder.snapshot, folder.run_id).to_dict("records"))
    levels = [_strict(row) for row in level_table(folder.snapshot, folder.run_id).to_dict("records")]
    finished = course.finished_at or course.started_at
    return {
        "summary_version": SUMMARY_VERSION,
        "exit_code": found.exit_code,
        "headline": found.headline,
        "parameters": plan.parameters.model_dump(mode="json", exclude={"run", "results"}),
        "source": source.model_dump(),
        "plan": plan.identity,
        "targets": [_verdict(verdict) for verdict in verdicts],
        "ratios": ratios,
        "levels": levels,
        "lone_request_s": {str(row["mode"]): row["e2el_mean_s"] for row in levels if row["level"] == 1},
        "beside": _beside(folder),
        "failures": _failures(folder),
        "notes": [*course.notes, *(describe_alert(alert) for alert in course.alerts)],
        "alerts": course.alerts,
        "run_id": folder.run_id,
        "started_at": course.started_at.isoformat(),
        "finished_at": finished.isoformat(),
        "wall_s": round((finished - course.started_at).total_seconds(), 1),
        "build": {"folder": str(build.folder), **build.info},
    }


def write_summary(folder: RunFolder, summary: Mapping[str, Any]) -> None:
    """Write summary.json and summary.md, each whole or not at all."""
    _write(folder.summary_json, json.dumps(summary, indent=1, allow_nan=False) + "\n")
    _write(folder.summary_markdown, markdown(summary))


def targets_rows(summary: Mapping[str, Any]) -> list[tuple[str, str, str, str, str, str]]:
    """Target, bound, measured, interval, pairs, verdict; levels without a target follow without a verdict."""
    rows = []
    for target in summary["targets"]:
        bound = f"{target['direction']} {target['bound_text']}"
        measured, interval = _figure(target["ratio"], target["unit"]), _interval(target)
        rows.append((target["name"], bound, measured, interval, str(target["pairs"]), target["status"]))
    judged = {(target["metric"], target["level"]) for target in summary["targets"]}
    others = [ratio for ratio in summary["ratios"] if (ratio["metric"], ratio["level"]) not in judged]
    return rows + [_without_target(ratio) for ratio in others]


def _without_target(ratio: Mapping[str, Any]) -> tuple[str, str, str, str, str, str]:
    return f"{ratio['level']} concurrent", "-", _figure(ratio["ratio"], "x"), "-", str(ratio["pairs"]), "no target"


def level_rows(summary: Mapping[str, Any]) -> list[tuple[str, str, str, str, str, str]]:
    """Level, mode, wall per round, average request latency, throughput, tokens a second."""
    return [
        (
            str(row["level"]),
            str(row["mode"]),
            _seconds(row["wall_s"]),
            _seconds(row["e2el_mean_s"]),
            "-" if row["request_throughput"] is None else f"{row['request_throughput']:.3f} req/s",
            "-" if row["output_throughput"] is None else f"{row['output_throughput']:.1f} tok/s",
        )
        for row in summary["levels"]
    ]


def lone_request(summary: Mapping[str, Any]) -> str:
    """The lone request's latency, which stands beside every ratio: a slow serial leg makes ratios look good."""
    times = summary["lone_request_s"]
    parts = [f"{mode} {_seconds(times[mode])}" for mode in ("serial", "batch") if times.get(mode) is not None]
    return f"A lone request takes: {', '.join(parts)}." if parts else "No lone request was measured."


def bought(summary: Mapping[str, Any]) -> str:
    """What the time bought: how far each target's interval reaches to either side, and from how many pairs."""
    parts = [
        f"{target['name']} {_reach(target['low'], target['high'])} ({target['pairs']} pairs)"
        for target in summary["targets"]
        if target["low"] is not None and target["high"] is not None
    ]
    if not parts:
        return "No target has an interval: that takes two pairs."
    return f"Intervals, {summary['wall_s']:.0f} s in all, the build among them: {', '.join(parts)}."


def _reach(low: float, high: float) -> str:
    return BEYOND if too_wide(low, high) else f"±{100 * (math.sqrt(high / low) - 1):.2g} %"


def target_lines(target: Mapping[str, Any]) -> list[str]:
    """What a reader must know of one target beside its row: the reason, flags, the legs' change, hints for a FAIL."""
    first = " ".join([f"{target['name']}: {target['reason']}", *target["flags"]])
    waived = [f"  waived {target['waived']}"] if target["waived"] else []
    change = [f"  {target['change']}"] if target["change"] else []
    return [first, *waived, *change, *(f"  hint: {hint}" for hint in target["hints"])]


def markdown(summary: Mapping[str, Any]) -> str:
    """summary.md: the two tables and what a reader must know beside them."""
    commit = f"{summary['source']['commit'][:10]}{' with uncommitted changes' if summary['source']['dirty'] else ''}"
    lines = [f"# {summary['headline']}", "", f"Commit {commit}, checkpoint {summary['parameters']['checkpoint']}, "]
    lines[-1] += f"TP {summary['parameters']['tp']}, workload {summary['parameters']['workload']}, run {summary['run_id']}."
    lines += ["", *markdown_table(TARGET_HEADINGS, targets_rows(summary)), "", bought(summary), "", lone_request(summary)]
    lines += ["", *markdown_table(LEVEL_HEADINGS, level_rows(summary)), ""]
    for target in summary["targets"]:
        first, *more = target_lines(target)
        lines += [f"- {first}", *(f"  - {line.strip()}" for line in more)]
    lines += [f"- {line}" for line in beside_lines(summary)]
    lines += [f"- {note}" for note in summary["notes"]]
    lines += [f"- {failure['measurement']}, attempt {failure['attempt']}: {failure['what']}" for failure in summary["failures"]]
    return "\n".join(lines) + "\n"


TARGET_HEADINGS = ("target", "bound", "measured", "interval", "pairs", "verdict")
LEVEL_HEADINGS = ("level", "mode", "wall per round", "avg request latency", "throughput", "tokens")


def _verdict(verdict: Verdict) -> dict[str, Any]:
    row = verdict.to_dict()
    target = row["target"] | {"bound": verdict.bound}  # of a relative target without a baseline there is none
    named = {name: target[name] for name in ("name", "metric", "level", "direction", "bound", "unit")}
    named["bound_text"] = _bound_text(verdict)
    return named | {"describe": verdict.target.describe()} | {name: row[name] for name in _VERDICT_FIELDS}


def _bound_text(verdict: Verdict) -> str:
    target = verdict.target
    if not target.relative:
        return quantity(target.bound, target.unit)
    return target.describe_bound() if verdict.bound is None else f"{quantity(verdict.bound, target.unit)} (relative)"


def _ratios(rows: Sequence[Mapping[Any, Any]]) -> list[dict[str, Any]]:
    """Geometric mean of the valid pairs at each level."""
    logs: dict[tuple[int, str], list[float]] = {}
    for row in rows:
        values = logs.setdefault((int(row["level"]), str(row["metric"])), [])
        if row["valid"] and row["ratio"] is not None and row["ratio"] > 0:
            values.append(math.log(row["ratio"]))
    return [
        {"level": level, "metric": metric, "ratio": math.exp(sum(values) / len(values)) if values else None, "pairs": len(values)}
        for (level, metric), values in sorted(logs.items())
    ]


def _beside(folder: RunFolder) -> list[dict[str, Any]]:
    """What was measured beside the pairs, the last attempt at each."""
    records = [record for record in folder.read_records() if record.spec.kind in KINDS]
    last = {record.measurement: record for record in sorted(records, key=lambda record: record.spec.attempt)}
    return [
        {"measurement": name, "kind": record.spec.kind, "status": record.status, "values": record.values}
        for name, record in last.items()
    ]


def beside_lines(summary: Mapping[str, Any]) -> list[str]:
    """One line each on what was measured beside the pairs, with the figures that say most."""
    return [
        f"{one['measurement'].partition('/')[2]}: {one['status']}"
        + "".join(f", {name} {one['values'][name]:.4g}" for name in SHOWN[one["kind"]] if name in one["values"])
        for one in summary.get("beside", ())
    ]


def _failures(folder: RunFolder) -> list[dict[str, Any]]:
    from flows.progress import describe

    return [
        {
            "measurement": record.measurement,
            "attempt": record.spec.attempt,
            "status": record.status,
            "what": describe(record),
        }
        for record in folder.read_records()
        if record.status != "ok"
    ]


def _strict(row: Mapping[Any, Any]) -> dict[str, Any]:
    """Plain values for strict JSON: what is absent in pandas is null."""
    plain = {name: value.item() if hasattr(value, "item") else value for name, value in row.items()}
    return {name: None if isinstance(value, float) and not math.isfinite(value) else value for name, value in plain.items()}


def _interval(target: Mapping[str, Any]) -> str:
    if target["low"] is None or target["high"] is None:
        return "no interval" if target["point"] else "-"
    if too_wide(target["low"], target["high"]):
        return BEYOND
    return f"{target['low']:.3f} to {target['high']:.3f}"


def _figure(value: float | None, unit: str) -> str:
    return "-" if value is None else f"{value:.3f}{unit if unit == 'x' else ' ' + unit}"


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f} s"


def markdown_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table."""
    return ["| " + " | ".join(cells) + " |" for cells in (headings, ["---"] * len(headings), *rows)]


def _write(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)
