"""Frames of single runs and of the whole history in the columns that the charts take, from the store's answers."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dashboards.run_view import json_object
from storage import queries

SHARES = (0.0, 0.01, 0.02, 0.05, *(step / 20 for step in range(2, 19)), 0.95, 0.98, 0.99, 1.0)  # that a distribution is read at


def legs(snapshot: Path) -> pd.DataFrame:
    """For `leg_throughput`: geometric mean of the valid pairs' legs of each run and level, with the extreme processes."""
    pairs = queries.target_ratios(snapshot)
    pairs = pairs[pairs["valid"]]
    places = queries.ratio_history(snapshot).drop_duplicates("run_id").set_index("run_id")["commit_position"]
    keys = ["run_id", "commit", "series", "level"]
    parts = []
    for mode in ("serial", "batch"):
        grouped = pairs.groupby(keys, sort=False)[mode]
        part = pd.DataFrame({"value": grouped.agg(_geometric_mean), "low": grouped.min(), "high": grouped.max()}).reset_index()
        parts.append(part.assign(mode=mode))
    table = pd.concat(parts, ignore_index=True)
    return table.assign(commit_position=table["run_id"].map(places).astype(float))


def scaling(snapshot: Path, run_id: str) -> pd.DataFrame:
    """For `level_scaling`: the run's speed-ups, ideal and perfect kernel, and each leg over serial at the lowest level."""
    history = queries.ratio_history(snapshot)
    mine = history[(history["run_id"] == run_id) & (history["metric"] == "speedup_vs_serial")]
    rows: list[dict[str, Any]] = [
        {"line": "speed-up", "level": row.level, "speedup": row.ratio, "low": row.low, "high": row.high}
        for row in mine.itertuples()
    ]
    table = queries.level_table(snapshot, run_id)
    serial = table[table["mode"] == "serial"].sort_values("level")
    if len(serial):
        alone = float(serial["request_throughput"].iloc[0])
        throughputs = zip(table["mode"], table["level"], table["request_throughput"], strict=True)
        rows += [{"line": f"{mode} leg", "level": level, "speedup": value / alone} for mode, level, value in throughputs]
    rows += [{"line": "ideal", "level": level, "speedup": float(level)} for level in sorted(set(table["level"]))]
    rows += [{"line": "perfect kernel", **row} for row in _perfect(queries.bandwidth_fraction(snapshot, run_id))]
    return pd.DataFrame(rows, columns=["line", "level", "speedup", "low", "high"])


def latency(snapshot: Path, run_id: str) -> pd.DataFrame:
    """For `request_latency`: percentiles of TTFT, TPOT, ITL and E2EL."""
    tokens = queries.token_latencies(snapshot, run_id)
    whole = queries.request_latency_percentiles(snapshot, run_id).assign(metric="e2el_s")
    columns = ["metric", "level", "mode", "p50_s", "p90_s", "p99_s", "max_s"]
    return pd.concat([tokens[columns], whole[columns]], ignore_index=True)


def distribution(snapshot: Path, run_id: str) -> pd.DataFrame:
    """For `latency_distribution`: the shares that its lines run through."""
    return queries.latency_shares(snapshot, run_id, SHARES)


def telemetry(snapshot: Path, run_id: str) -> pd.DataFrame:
    """For `night_telemetry`: what each record saw before and after."""
    rows = []
    for record in queries.records(snapshot, run_id).to_dict("records"):
        for column, at in (("host_before", record["started_at"]), ("host_after", record["finished_at"])):
            look = json_object(record[column])
            rows += [
                {"at": at, "quantity": name, "value": value, "measurement": record["measurement"]} for name, value in look.items()
            ]
    return pd.DataFrame(rows, columns=["at", "quantity", "value", "measurement"])


def newest_run(snapshot: Path, having: str = "pairs") -> str | None:
    """The run that started last of those with pairs, or measurements; None where there is none."""
    runs = queries.runs(snapshot)
    runs = runs[runs[having] > 0]
    return None if runs.empty else str(runs["run_id"].iloc[0])


def _perfect(bandwidth: pd.DataFrame) -> list[dict[str, float]]:
    """N requests at the cost of reading a batch step's bytes once, against N serial steps."""
    steps = bandwidth.dropna(subset=["step_bytes"])
    serial = steps[steps["mode"] == "serial"].sort_values("level")
    batch = steps[steps["mode"] == "batch"]
    if serial.empty:
        return []
    one = float(serial["step_bytes"].iloc[0])
    pairs = zip(batch["level"], batch["step_bytes"], strict=True)
    return [{"level": float(level), "speedup": float(level) * one / float(size)} for level, size in pairs]


def _geometric_mean(values: pd.Series) -> float:
    return float(np.exp(np.log(values).mean()))
