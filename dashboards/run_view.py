"""Everything one run's page says, read from the store once: frames for the charts, cells for the tables."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pandas as pd

from dashboards import frames, theme
from dashboards.pages import Cell, Grid
from storage import queries, run_details

SEVERITY = ("ERROR", "FAIL", "INCONCLUSIVE", "PASS")  # the worst one names the run
RIGHT = {">=": "≥", "<=": "≤"}


@dataclass(frozen=True)
class RunView:
    """One run. `targets` has the columns of the target chart plus mde, pairs, point; `history` those of the trend chart."""

    run_id: str
    targets: pd.DataFrame
    levels: pd.DataFrame
    records: pd.DataFrame
    history: pd.DataFrame
    facts: list[tuple[str, str]]

    def overall(self) -> str:
        """The worst verdict, NO TARGET where there is none."""
        seen = set(frames.verdict_names(self.targets["verdict"]))
        return next((verdict for verdict in SEVERITY if verdict in seen), "NO TARGET")

    def headline(self) -> str:
        """The run's finding in one line."""
        names = frames.verdict_names(self.targets["verdict"])
        judged = int((names != "NO TARGET").sum())
        passed = int((names == "PASS").sum())
        if not judged:
            return "No target was judged in this run"
        return f"All {judged} targets pass" if passed == judged else f"{passed} of {judged} targets pass"


class UnknownRun(LookupError):
    """The store has no record of this run. The message names the run and the runs there are."""


def read_run(snapshot: Path, run_id: str) -> RunView:
    """Read one run and the history it stands in. Raises UnknownRun, and StoreError where the store cannot be read."""
    records = run_details.records(snapshot, run_id)
    history = queries.ratio_history(snapshot)
    if records.empty:
        known = frames.listing(sorted(set(history["run_id"]))[-5:]) or "none"
        raise UnknownRun(f"{snapshot}: no record of run {run_id!r}; the latest runs there: {known}")
    targets = _targets(queries.verdicts(snapshot, run_id), history[history["run_id"] == run_id])
    return RunView(run_id, targets, queries.level_table(snapshot, run_id), records, history, _facts(records))


def target_grid(view: RunView) -> Grid:
    """The first of the two tables: each target with ratio, interval, smallest detectable effect, pairs and verdict."""
    columns = ["target", "bound", "ratio", "interval", "MDE", "pairs", "verdict", "why"]
    rows: list[list[Cell]] = []
    for row in view.targets.to_dict("records"):
        bound = _number(row["target"])
        rows.append(
            [
                f"{frames.level_label(row['level'])}: {frames.metric_label(row['metric'])}",
                "—" if bound is None else f"{RIGHT.get(row['direction'], '')} {bound:g}",
                frames.figure(_number(row["ratio"])),
                frames.interval(_number(row["low"]), _number(row["high"])) or "point",
                _percent(row["mde"]),
                _count(row["pairs"]),
                {"verdict": str(frames.verdict_names(pd.Series([row["verdict"]])).iloc[0])},
                str(row["reason"] or ""),
            ]
        )
    caption = "Batch against serial: ratio with its interval, smallest effect that would be seen (MDE), and the verdict"
    return Grid("targets", caption, columns, rows, frozenset({1, 2, 3, 4, 5}), "No level was measured.")


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
        for row in view.levels.to_dict("records")
    ]
    return Grid("levels", "Each level in both modes, means over processes", columns, rows, frozenset(range(2, 9)), "No process has a kept round.")


def record_grid(view: RunView) -> Grid:
    """Every measurement of the run with a link to its raw record; failed and invalid ones with the reason."""
    rows: list[list[Cell]] = [
        [
            _record_link(view.run_id, str(row["measurement"]), str(row["source_file"])),
            str(row["mode"]),
            str(int(row["level"])),
            str(int(row["pair"])),
            str(int(row["attempt"])),
            str(row["status"]),
            str(row["trouble"] or ""),
        ]
        for row in view.records.to_dict("records")
    ]
    columns = ["measurement", "mode", "level", "pair", "attempt", "status", "why"]
    return Grid("records", f"{len(rows)} measurements, each one engine process", columns, rows, frozenset({2, 3, 4}), "No record.")


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
        for row in ordered.tail(last).iloc[::-1].to_dict("records")
    ]
    columns = ["commit", "ratio of", "ratio", "interval", "verdict", "run"]
    caption = f"The newest {len(rows)} of {len(history)} points"
    return Grid("history", caption, columns, rows, frozenset({2, 3}), "No run is in the store yet.")


def _record_link(run_id: str, name: str, source_file: str) -> Cell:
    """A link where the raw record lies in the run's folder; elsewhere only the name: a page names no path of its machine."""
    inside = source_file.removeprefix(f"{run_id}/")
    return {"text": name, "href": quote(inside)} if inside != source_file else name


def _targets(verdicts: pd.DataFrame, points: pd.DataFrame) -> pd.DataFrame:
    """Judged targets, then the levels that have none, by level."""
    if "leg" in verdicts.columns:
        verdicts = verdicts[verdicts["leg"] == "ratio"]
    judged = verdicts.rename(columns={"status": "verdict"})
    keys = set(zip(judged["metric"], judged["level"], strict=True))
    alone = [pair not in keys for pair in zip(points["metric"], points["level"], strict=True)]
    extra = points[alone].assign(mde=math.nan, point=True, reason="")
    columns = ["metric", "level", "direction", "target", "ratio", "low", "high", "verdict", "mde", "pairs", "point", "reason"]
    rows = [row for part in (judged, extra) for row in part[columns].to_dict("records")]
    return pd.DataFrame(rows, columns=columns).sort_values(["level", "metric"], kind="stable").reset_index(drop=True)


def _facts(records: pd.DataFrame) -> list[tuple[str, str]]:
    """Commit, machine, checkpoint and parameters, each value once; values that differ within the run are all named."""
    specs, machines = [_object(text) for text in records["spec"]], [_object(text) for text in records["machine"]]
    state = "with uncommitted changes" if records["dirty"].any() else "clean"
    facts = [
        ("Commit", f"{_each(records['commit'])} ({state})"),
        ("Started", f"{records['started_at'].min():%Y-%m-%d %H:%M:%S} UTC"),
        ("Took", f"{(records['finished_at'].max() - records['started_at'].min()).total_seconds():.0f} s"),
        ("Host", _each(records["hostname"])),
        ("Machine", _each([_machine(machine) for machine in machines])),
        ("Kernel path", _each(records["isa"])),
        ("Compiler", _each([machine.get("compiler") for machine in machines])),
        ("Checkpoint", _each(records["checkpoint"])),
        ("Checkpoint digest", _each([str(value)[:16] for value in records["checkpoint_digest"].dropna()])),
        ("Workload", _each(records["workload"])),
        ("Levels", _each(sorted({int(level) for level in records["level"]}))),
    ]
    names = {"tp": "Tensor-parallel ranks", "devices": "Devices", "threads": "Threads (0: chosen by the engine)", "slots": "Slots"}
    names |= {"context": "Context", "prompt_tokens": "Prompt tokens", "new_tokens": "New tokens", "warmup": "Warm-up rounds"}
    names |= {"runs": "Rounds kept", "seed": "Seed"}
    facts += [(label, _each([spec.get(name) for spec in specs])) for name, label in names.items()]
    return [(label, value) for label, value in facts if value]


def _machine(machine: Mapping[str, Any]) -> str:
    cores, memory = machine.get("cores"), machine.get("memory_bytes")
    parts = [machine.get("gpu") or machine.get("cpu_model"), f"{cores} cores" if cores else None]
    parts.append(f"{memory / 2**30:.0f} GiB" if isinstance(memory, int | float) else None)
    return ", ".join(str(part) for part in parts if part)


def _each(values: Any) -> str:
    seen = dict.fromkeys(str(value) for value in values if value is not None and value == value and str(value) != "")
    return ", ".join(seen)


def _object(text: Any) -> dict[str, Any]:
    value = json.loads(text) if isinstance(text, str) else text
    return value if isinstance(value, dict) else {}


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


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


assert set(SEVERITY) < set(theme.VERDICTS)  # noqa: S101
