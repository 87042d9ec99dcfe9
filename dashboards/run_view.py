"""Everything one run's page says, read from the store once: frames for the charts, cells for the tables."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pandas as pd

from dashboards import changes, frames
from dashboards.pages import Cell, Grid
from storage import queries

SEVERITY = ("ERROR", "FAIL", "INCONCLUSIVE", "PASS")  # the worst one names the run
TARGET_COLUMNS = ["name", "leg", "unit", "metric", "level", "direction", "target", "ratio", "low", "high", "verdict"]
TARGET_COLUMNS += ["mde", "pairs", "point", "reason", "flags", "waived", "details"]
PARAMETERS = {
    "tp": "Tensor-parallel ranks",
    "devices": "Devices",
    "threads": "Threads (0: chosen by the engine)",
    "slots": "Slots",
    "context": "Context",
    "prompt_tokens": "Prompt tokens",
    "new_tokens": "New tokens",
    "warmup": "Warm-up rounds",
    "runs": "Rounds kept",
    "seed": "Seed",
}
RIGHT = {">=": "≥", "<=": "≤"}


@dataclass(frozen=True)
class RunView:
    """One run. `targets` has the columns of the target chart and more (`TARGET_COLUMNS`), `history` those of the trend."""

    run_id: str
    targets: pd.DataFrame
    levels: pd.DataFrame
    records: pd.DataFrame
    history: pd.DataFrame
    facts: list[tuple[str, str]]

    def ratios(self) -> pd.DataFrame:
        """The targets on a ratio of the legs, and the levels without a target: what the target chart draws."""
        return self.targets[self.targets["leg"] == "ratio"]

    def overall(self) -> str:
        """The worst verdict, NO TARGET where there is none."""
        seen = set(frames.verdict_names(self.targets["verdict"]))
        return next((verdict for verdict in SEVERITY if verdict in seen), "NO TARGET")

    def canary(self) -> str:
        """What the build against itself showed, empty where no canary was judged."""
        said = [json_object(details).get("canary") for details in self.targets["details"]]
        return next((str(words) for words in said if words), "")

    def headline(self) -> str:
        """The run's finding in one line."""
        names = frames.verdict_names(self.targets["verdict"])
        judged = int((names != "NO TARGET").sum())
        passed = int((names == "PASS").sum())
        if not judged:
            return "No target was judged in this run"
        return f"All {judged} targets pass" if passed == judged else f"{passed} of {judged} targets pass"


class UnknownRunError(LookupError):
    """The store has no record of this run. The message names the run and the runs there are."""


def read_run(snapshot: Path, run_id: str, history: pd.DataFrame | None = None) -> RunView:
    """Read one run and the history it stands in, or take the history given.

    Raises UnknownRunError, and StoreError where the store cannot be read.
    """
    records = queries.records(snapshot, run_id)
    history = changes.marked(queries.ratio_history(snapshot), queries.change_points(snapshot)) if history is None else history
    if records.empty:
        known = frames.listing(sorted(set(history["run_id"]))[-5:]) or "none"
        raise UnknownRunError(f"{snapshot}: no record of run {run_id!r}; the latest runs there: {known}")
    looks = records.dropna(subset=["environment_id"]).drop_duplicates("environment_id")["record_id"]
    machines = [queries.record(snapshot, record_id)["environment"] for record_id in looks]
    targets = _targets(queries.verdicts(snapshot, run_id), history[history["run_id"] == run_id])
    facts = _facts(_of_pairs(records), machines)
    return RunView(run_id, targets, queries.level_table(snapshot, run_id), records, history, facts)


def target_grid(view: RunView) -> Grid:
    """The first of the two tables: each target with ratio, interval, smallest detectable effect, pairs and verdict."""
    columns = ["target", "verdict", "ratio", "interval", "bound", "MDE", "pairs", "why"]
    rows: list[list[Cell]] = []
    for row in frames.rows(view.targets):
        bound = _number(row["target"])
        rows.append(
            [
                _target_name(row),
                {"verdict": str(frames.verdict_names(pd.Series([row["verdict"]])).iloc[0])},
                frames.figure(_number(row["ratio"])),
                frames.interval(_number(row["low"]), _number(row["high"])) or "point",
                "—" if bound is None else f"{RIGHT.get(row['direction'], '')} {bound:g}{_unit(row)}",
                _percent(row["mde"]),
                _count(row["pairs"]),
                _why(row),
            ]
        )
    caption = "Batch against serial: ratio with its interval, smallest effect that would be seen (MDE), and the verdict"
    return Grid("targets", caption, columns, rows, frozenset({2, 3, 4, 5, 6}), "No level was measured.", "Targets")


def cause_grid(view: RunView) -> Grid:
    """What the records say beside each verdict: the legs' change since the accepted state, and what may explain a FAIL."""
    rows: list[list[Cell]] = []
    for row in frames.rows(view.targets):
        details = json_object(row["details"])
        said = [("change", details.get("change"))] + [("hint", hint) for hint in details.get("hints") or ()]
        verdict: Cell = {"verdict": str(frames.verdict_names(pd.Series([row["verdict"]])).iloc[0])}
        rows += [[_target_name(row), verdict, kind, str(words)] for kind, words in said if words]
    columns = ["target", "verdict", "kind", "what the records say"]
    caption = "Which leg moved since the accepted state, and what stands out where a target fails"
    empty = "Nothing stands out: no target fails with a hint, and no leg is held against an accepted state."
    return Grid("causes", caption, columns, rows, empty=empty, title="Why")


def level_grid(view: RunView) -> Grid:
    """The second: per level and mode, wall of a round, request latency, first token, time per token, throughput."""
    columns = ["level", "mode", "wall per round", "avg request latency", "TTFT", "TPOT", "requests", "tokens", "processes"]
    rows: list[list[Cell]] = [
        [
            str(int(row["level"])),
            str(row["mode"]),
            _seconds(row["wall_s"]),
            _seconds(row["e2el_mean_s"]),
            _seconds(row["ttft_mean_s"]),
            _milliseconds(row["tpot_mean_s"]),
            f"{frames.figure(_number(row['request_throughput']))} req/s",
            f"{frames.figure(_number(row['output_throughput']), 1)} tok/s",
            f"{_count(row['processes'])} × {int(row['rounds'] / row['processes'])} rounds",
        ]
        for row in frames.rows(view.levels)
    ]
    caption = "Each level in both modes, means over processes"
    return Grid("levels", caption, columns, rows, frozenset(range(2, 9)), "No process has a kept round.", "Levels")


def record_grid(view: RunView, base: str | None = "") -> Grid:
    """Every measurement of the run with a link to its raw record; failed and invalid ones with the reason.

    base: the run's folder as seen from the page, ending in /, empty where the page lies in it, None for no links.
    """
    rows: list[list[Cell]] = [
        [
            _record_link(str(row["measurement"]), str(row["source_file"]), view.run_id, base),
            str(row["mode"]),
            str(int(row["level"])),
            str(int(row["pair"])),
            str(int(row["attempt"])),
            str(row["status"]),
            trouble(row),
        ]
        for row in frames.rows(view.records)
    ]
    columns = ["measurement", "mode", "level", "pair", "attempt", "status", "why"]
    caption = f"{frames.count(len(rows), 'measurement')}, each one engine process"
    return Grid("records", caption, columns, rows, frozenset({2, 3, 4}), "No record.", "Records", folded=len(rows) > 12)


def history_grid(history: pd.DataFrame, last: int = 40) -> Grid:
    """The newest points of the trend as a table, newest first."""
    ordered = history.sort_values(["commit_position", "run_id", "level"], na_position="last", kind="stable")
    rows: list[list[Cell]] = [
        [
            frames.short_commit(row["commit"]),
            f"{frames.level_label(row['level'])}: {frames.metric_label(row['metric'])}",
            frames.figure(_number(row["ratio"])),
            frames.interval(_number(row["low"]), _number(row["high"])) or "point",
            {"verdict": str(frames.verdict_names(pd.Series([row["verdict"]])).iloc[0])},
            str(row["run_id"]),
        ]
        for row in frames.rows(ordered.tail(last).iloc[::-1])
    ]
    columns = ["commit", "ratio of", "ratio", "interval", "verdict", "run"]
    caption = f"The newest {len(rows)} of {len(history)} points"
    return Grid("history", caption, columns, rows, frozenset({2, 3}), "No run is in the store yet.")


def trouble(row: Mapping[str, Any]) -> str:
    """Why a record failed or is invalid, empty where it is good."""
    failure = [row["failure_type"], row["failure_message"]]
    return ": ".join(str(part) for part in (*failure, *row["invalid_because"]) if not frames.absent(part))


def _record_link(name: str, source_file: str, run_id: str, base: str | None) -> Cell:
    """A link where the raw record lies in the run's folder; elsewhere only the name: a page names no path of its machine."""
    inside = source_file.removeprefix(f"{run_id}/")
    return name if base is None or inside == source_file else {"text": name, "href": base + quote(inside)}


def _targets(verdicts: pd.DataFrame, points: pd.DataFrame) -> pd.DataFrame:
    """Judged targets, then the levels that have none, by level."""
    judged = verdicts.rename(columns={"status": "verdict"})
    ratios = judged[judged["leg"] == "ratio"]
    keys = set(zip(ratios["metric"], ratios["level"], strict=True))
    alone = [pair not in keys for pair in zip(points["metric"], points["level"], strict=True)]
    unjudged: dict[str, Any] = {
        "mde": math.nan,
        "point": True,
        "reason": "",
        "flags": None,
        "waived": "",
        "details": None,
        "name": "",
        "leg": "ratio",
        "unit": "x",
    }
    extra = points[alone].assign(**unjudged)
    rows = [row for part in (judged, extra) for row in frames.rows(part[TARGET_COLUMNS])]
    return pd.DataFrame(rows, columns=TARGET_COLUMNS).sort_values(["level", "metric"], kind="stable").reset_index(drop=True)


def _of_pairs(records: pd.DataFrame) -> pd.DataFrame:
    """The records of pairs, whose specs are what the run is about; all of them where there is no pair."""
    pairs = records[records["kind"].isin(["latency", "throughput", "canary", "comparison"])]
    return records if pairs.empty else pairs


def _facts(records: pd.DataFrame, environments: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Commit, machine, checkpoint and parameters, each value once; values that differ within the run are all named."""
    specs = [json_object(text) for text in records["spec"]]
    machines = [json_object(environment["machine"]) for environment in environments]
    state = "with uncommitted changes" if records["dirty"].any() else "clean"
    facts = [
        ("Commit", f"{_each(records['commit'])} ({state})"),
        ("Started", f"{records['started_at'].min():%Y-%m-%d %H:%M:%S} UTC"),
        ("Took", f"{(records['finished_at'].max() - records['started_at'].min()).total_seconds():.0f} s"),
        ("Host", _each([environment["hostname"] for environment in environments])),
        ("Machine", _each([_machine(machine) for machine in machines])),
        ("Kernel path", _each(records["isa"])),
        ("Compiler", _each([machine.get("compiler") for machine in machines])),
        ("Checkpoint", _each(records["checkpoint"])),
        ("Checkpoint digest", _each([str(value)[:16] for value in records["checkpoint_digest"].dropna()])),
        ("Workload", _each(records["workload"])),
        ("Levels", _each(sorted({int(level) for level in records["level"]}))),
    ]
    facts += [(label, _each([spec.get(name) for spec in specs])) for name, label in PARAMETERS.items()]
    return [(label, value) for label, value in facts if value]


def _machine(machine: Mapping[str, Any]) -> str:
    cores, memory = machine.get("cores"), machine.get("memory_bytes")
    parts = [*(machine.get("gpus") or []), machine.get("cpu_model"), f"{cores} cores" if cores else None]
    parts.append(f"{memory / 2**30:.0f} GiB" if isinstance(memory, int | float) else None)
    return ", ".join(str(part) for part in parts if part)


def _each(values: Any) -> str:
    seen = dict.fromkeys(str(value) for value in values if not frames.absent(value) and str(value) != "")
    return ", ".join(seen)


def json_object(text: Any) -> dict[str, Any]:
    """A JSON column's object, empty for anything else."""
    value = json.loads(text) if isinstance(text, str) else text
    return value if isinstance(value, dict) else {}


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def _target_name(row: Mapping[str, Any]) -> str:
    leg = "" if row["leg"] == "ratio" else f" ({row['leg']})"
    return f"{frames.level_label(row['level'])}: {frames.metric_label(row['metric'])}{leg}"


def _unit(row: Mapping[str, Any]) -> str:
    unit = row["unit"]
    return "" if not isinstance(unit, str) or unit in ("", "x") else f" {unit}"


def _why(row: Mapping[str, Any]) -> str:
    """Reason, flags and waiver of a verdict in one cell."""
    flags = row["flags"] if row["flags"] is not None and not isinstance(row["flags"], float) else ()
    waived = f"waived: {row['waived']}" if isinstance(row["waived"], str) and row["waived"] else ""
    parts = [row["reason"] if isinstance(row["reason"], str) else "", *flags, waived]
    return ". ".join(part for part in parts if part)


def _percent(value: Any) -> str:
    number = _number(value)
    return "—" if number is None else f"{100 * number:.1f} %"


def _count(value: Any) -> str:
    number = _number(value)
    return "—" if number is None else str(int(number))


def _seconds(value: Any) -> str:
    number = _number(value)
    return "—" if number is None else f"{number:.3f} s"


def _milliseconds(value: Any) -> str:
    number = _number(value)
    return "—" if number is None else f"{1000 * number:.2f} ms"
