"""What earlier nights say: baselines, accepted legs, decisions, changes of the trend. Read from the store for one run.

A run sees the nights that were measured and the decisions that were made before it began, so that a rebuild judges it as it was
judged then.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from flows.verdicts.accept import Acceptance, Baseline, PastNight, Waiver, find_baseline
from flows.verdicts.intervals import Interval
from flows.verdicts.judge import PairSample, judged_value
from flows.verdicts.legs import LegState
from flows.verdicts.series import same_binary
from flows.verdicts.targets import Target
from flows.verdicts.trend import ChangePoint, Point, find_changes, new_alerts


@dataclass(frozen=True)
class Accepted:
    """A target's baseline, with the legs of the nights that it rests on and whether this run measures that very binary."""

    baseline: Baseline
    legs: LegState | None
    same_binary: bool


@dataclass(frozen=True)
class Night:
    """The run that is judged, as the store has it."""

    run_id: str
    commit: str
    position: int | None
    series: str
    build: str
    began: datetime  # UTC


@dataclass(frozen=True)
class Decisions:
    """What people had decided when the run began."""

    acceptances: tuple[Acceptance, ...] = ()
    waivers: tuple[Waiver, ...] = ()


def find_night(store: Path, run_id: str) -> Night | None:
    """The run's own night; None where nothing of it was measured. Of several series the one with the most pairs' worth wins."""
    from storage.queries import nights

    rows = [row for row in nights(store).to_dict("records") if row["run_id"] == run_id]
    if not rows:
        return None
    row = max(rows, key=lambda found: (bool(text(found["build"])), found["measured_at"]))
    return Night(
        run_id, row["commit"], _place(row["position"]), row["series"], text(row["build"]), row["measured_at"].to_pydatetime()
    )


def decisions_before(store: Path, night: Night) -> Decisions:
    """Acceptances and waivers that the night knew of."""
    from storage.queries import decisions

    rows = [row for row in decisions(store).to_dict("records") if row["decided_at"].to_pydatetime() <= night.began]
    return Decisions(
        tuple(Acceptance(r["commit"], r["because"], text(r["target"]) or None) for r in rows if r["kind"] == "acceptance"),
        tuple(Waiver(r["target"], _day(r["until"]), r["because"]) for r in rows if r["kind"] == "waiver"),
    )


def accepted_states(store: Path, night: Night, targets: Sequence[Target], decisions: Decisions) -> dict[str, Accepted]:
    """By target name, what the night is held against; targets without a baseline are absent."""
    from storage.queries import nights

    others = [
        row
        for row in nights(store, night.series).to_dict("records")
        if row["run_id"] != night.run_id and row["measured_at"].to_pydatetime() < night.began
    ]
    if not others:
        return {}
    past = {row["run_id"]: row for row in others}
    samples = _samples_by_run(store, night, past, targets)
    said = _said(store, past)
    found = {}
    for target in targets:
        history = [
            PastNight(
                commit=row["commit"],
                position=_place(row["position"]),
                target=target.name,
                status=status_of(said.get(run_id, []), target.name),
                values=_values(target, samples.get((run_id, target.metric, target.level), [])),
                binary=text(row["build"]),
            )
            for run_id, row in past.items()
        ]
        baseline = find_baseline(target.name, history, decisions.acceptances, before=night.position)
        if baseline is None:
            continue
        builds = {text(row["build"]) for row in others if row["commit"] == baseline.commit}
        same = [r for r, row in past.items() if row["commit"] == baseline.commit or any(_same(row, b) for b in builds)]
        pairs = [pair for run_id in same for pair in samples.get((run_id, target.metric, target.level), [])]
        found[target.name] = Accepted(baseline, LegState.of(pairs), any(same_binary(night.build, build) for build in builds))
    return found


def status_of(verdicts: Sequence[Mapping[str, Any]], target: str) -> Any:
    """How a past night stands towards a target: its verdict; where that target was new to it or had no baseline then, PASS if
    all else passed, so that a first baseline can come to be.
    """
    own = next((row for row in verdicts if row["name"] == target), None)
    if own is not None and not (own["status"] == "INCONCLUSIVE" and math.isnan(_number(own["target"]))):
        return own["status"]
    rest = [row["status"] for row in verdicts if row["name"] != target and not math.isnan(_number(row["target"]))]
    return "PASS" if rest and all(status == "PASS" for status in rest) else "INCONCLUSIVE"


def find_alerts(store: Path, night: Night) -> list[dict[str, Any]]:
    """Changes of the ratios' trend that this run is the first to show, as rows of `change_points` without run_id."""
    from storage.queries import change_points, nights, ratio_history

    if night.position is None:
        return []
    known = {row["run_id"] for row in nights(store).to_dict("records") if row["measured_at"].to_pydatetime() <= night.began}
    history = ratio_history(store)
    history = history[(history["series"] == night.series) & history["ratio"].notna() & history["run_id"].isin(known)]
    told = change_points(store)
    alerts = []
    for (workload, metric, level), line in history.groupby(["workload", "metric", "level"]):
        points = [Point(r["commit"], _place(r["commit_position"]), float(r["ratio"])) for r in line.to_dict("records")]
        trend = find_changes(points)
        mine = told[(told["series"] == night.series) & (told["metric"] == metric) & (told["level"] == level)]
        fired = [_told(row) for row in mine.to_dict("records") if row["run_id"] != night.run_id and row["run_id"] in known]
        where = {"series": night.series, "workload": str(workload), "metric": str(metric), "level": int(str(level))}
        alerts += [where | _as_row(change) for change in new_alerts(trend, night.commit, fired)]
    return alerts


def describe_alert(alert: Mapping[str, Any]) -> str:
    """For people: which ratio changed, by how much, and the commits that can have done it."""
    spread = f"{alert['low'] - 1:+.1%} to {alert['high'] - 1:+.1%}"
    return (
        f"The trend changed: {alert['metric']}@{alert['level']} by {alert['step'] - 1:+.1%} ({spread}) "
        f"in {alert['good'][:10]}..{alert['bad'][:10]}."
    )


def rows_to_samples(rows: Iterable[Mapping[Any, Any]]) -> list[PairSample]:
    """Rows of target_ratios or pair_metrics as pairs."""
    return [
        PairSample(
            pair=int(row["pair"]),
            serial=present(row["serial"]),
            batch=present(row["batch"]),
            valid=bool(row["valid"]),
            reason=str(row["reason"] or ""),
            broken=bool(row["broken"]),
        )
        for row in rows
    ]


def present(value: float | None) -> float | None:
    """In pandas NaN stands for what is absent."""
    return None if value is None or math.isnan(value) else float(value)


def text(value: Any) -> str:
    """A text of a data frame; absent is empty."""
    return value if isinstance(value, str) else ""


def _samples_by_run(
    store: Path, night: Night, past: Mapping[str, Any], targets: Sequence[Target]
) -> dict[tuple[str, str, int], list[PairSample]]:
    from storage.queries import pair_metrics

    found: dict[tuple[str, str, int], list[PairSample]] = {}
    for metric in sorted({target.metric for target in targets}):
        frame = pair_metrics(store, metric=metric)
        frame = frame[(frame["series"] == night.series) & frame["run_id"].isin(list(past))]
        for (run_id, level), rows in frame.groupby(["run_id", "level"]):
            found[str(run_id), metric, int(str(level))] = rows_to_samples(rows.to_dict("records"))
    return found


def _said(store: Path, past: Mapping[str, Any]) -> dict[str, list[dict[Any, Any]]]:
    """Verdicts of the past nights, by run."""
    from storage.queries import verdicts

    frame = verdicts(store)
    frame = frame[frame["run_id"].isin(list(past))]
    return {str(run_id): rows.to_dict("records") for run_id, rows in frame.groupby("run_id")}


def _values(target: Target, samples: Sequence[PairSample]) -> tuple[float, ...]:
    """The judged figures of the valid pairs."""
    values = [judged_value(target, sample) for sample in samples if sample.valid and not sample.broken]
    return tuple(value for value in values if value is not None)


def _same(row: Mapping[Any, Any], build: str) -> bool:
    return same_binary(text(row["build"]), build)


def _as_row(change: ChangePoint) -> dict[str, Any]:
    step = change.step
    places = {"good_position": change.good_position, "bad_position": change.bad_position}
    return {
        "good": change.good,
        "bad": change.bad,
        **places,
        "step": step.value,
        "low": step.low,
        "high": step.high,
        "p": change.p,
    }


def _told(row: Mapping[Any, Any]) -> ChangePoint:
    step = Interval(row["step"], row["low"], row["high"], 0.95)
    return ChangePoint(row["good"], row["bad"], int(row["good_position"]), int(row["bad_position"]), step, row["p"])


def _place(value: Any) -> int | None:
    return None if value is None or math.isnan(_number(value)) else int(value)


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):  # None and pandas' NA
        return math.nan


def _day(value: Any) -> date:
    return value.date() if isinstance(value, datetime) else value


def today_of(night: Night) -> date:
    """The day on which the run began, UTC: what waivers are held against."""
    return night.began.replace(tzinfo=UTC).date()
