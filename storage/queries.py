"""The questions the rest of paceline asks, each answered by a data frame. Read from the snapshot; absent is None or NaN, as pandas has it.

`path` is a results folder, the store or a snapshot. All raise StoreMissing, StoreTooNew or StoreError as `storage.database.read` does.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from storage.database import read


def query(path: Path | str, sql: str, parameters: Sequence[Any] = ()) -> pd.DataFrame:
    """Any SELECT on the store."""
    with read(path) as connection:
        return connection.execute(sql, list(parameters)).df()


def target_ratios(path: Path | str, run_id: str | None = None) -> pd.DataFrame:
    """One row a pair: run_id, commit, workload, series, metric, level, pair, serial, batch, ratio, valid, reason, broken."""
    where, parameters = ("", []) if run_id is None else ("WHERE run_id = ?", [run_id])
    sql = f"""SELECT run_id, "commit", workload, series, metric, level, pair, serial, batch, ratio, valid, reason, broken
        FROM target_ratios {where} ORDER BY run_id, workload, level, pair"""
    return query(path, sql, parameters)


def level_table(path: Path | str, run_id: str) -> pd.DataFrame:
    """One row a level and mode, serial first: level, mode, wall_s, e2el_mean_s, ttft_mean_s, tpot_mean_s, request_throughput,
    output_throughput, processes, rounds, workload.
    """
    sql = "SELECT * EXCLUDE (run_id) FROM level_table WHERE run_id = ? ORDER BY workload, level, mode = 'batch'"
    return query(path, sql, [run_id])


def ratio_history(path: Path | str) -> pd.DataFrame:
    """One row a run, series, level and metric, in topological order, those without a place last: run_id, commit, commit_position, committed_at,
    series, workload, level, metric, ratio, low, high, verdict, target, direction, placement, subject, measured_at, pairs.
    """
    return query(
        path, "SELECT * FROM ratio_by_commit ORDER BY series, level, metric, commit_position NULLS LAST, measured_at, run_id"
    )


def verdicts(path: Path | str, run_id: str | None = None) -> pd.DataFrame:
    """The table `verdicts`: run_id, workload, metric, level, name, leg, direction, target, unit, status, ratio, low, high, ..."""
    return _of_run(path, "verdicts", run_id, "run_id, workload, level, metric, name")


def _of_run(path: Path | str, relation: str, run_id: str | None, order: str) -> pd.DataFrame:
    if run_id is None:
        return query(path, f"SELECT * FROM {relation} ORDER BY {order}")
    return query(path, f"SELECT * FROM {relation} WHERE run_id = ? ORDER BY {order}", [run_id])
